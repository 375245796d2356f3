//! The controller against a real registry.

use k8s_openapi::api::flowcontrol::v1::{
    FlowSchemaSpec, LimitResponse, LimitedPriorityLevelConfiguration, PriorityLevelConfigurationReference,
    PriorityLevelConfigurationSpec,
};
use setpoint_testkit::{Cluster, Component};

use super::*;

fn dangling(cluster: &Cluster, name: &str) -> Option<String> {
    let schema = cluster.cache::<FlowSchema>().find(&Key::new("", name))?;
    let schema = TypedObject::<FlowSchema>::new(schema).to_owned().ok()?;
    schema.status?.conditions?.first()?.status.clone()
}

#[tokio::test]
async fn a_schema_dangles_until_its_level_exists() {
    let (cluster, _components) = Cluster::with([Component::Controller("flowschema-status")]).await;
    let client = cluster.client("test");
    let mut schema = FlowSchema {
        spec: FlowSchemaSpec {
            priority_level_configuration: PriorityLevelConfigurationReference {
                name: "mine".to_owned(),
            },
            ..FlowSchemaSpec::default()
        },
        ..FlowSchema::default()
    };
    schema.metadata.name = Some("own".to_owned());
    client.all().create(&schema).await.unwrap();
    cluster
        .until("it dangles", |cluster| {
            dangling(cluster, "own").as_deref() == Some("True")
        })
        .await;
    let mut level = PriorityLevelConfiguration {
        spec: PriorityLevelConfigurationSpec {
            type_: "Limited".to_owned(),
            limited: Some(LimitedPriorityLevelConfiguration {
                limit_response: LimitResponse {
                    type_: "Reject".to_owned(),
                    ..LimitResponse::default()
                },
                ..LimitedPriorityLevelConfiguration::default()
            }),
            ..PriorityLevelConfigurationSpec::default()
        },
        ..PriorityLevelConfiguration::default()
    };
    level.metadata.name = Some("mine".to_owned());
    client.all().create(&level).await.unwrap();
    cluster
        .until("it no longer dangles", |cluster| {
            dangling(cluster, "own").as_deref() == Some("False")
        })
        .await;
}
