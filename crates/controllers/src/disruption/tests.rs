//! The controller against a real registry.

use k8s_openapi::api::policy::v1::{PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use setpoint_testkit::{Cluster, Component, replica_set};

use super::*;

fn budget(most: i32) -> PodDisruptionBudget {
    let mut budget = PodDisruptionBudget::default();
    budget.metadata.name = Some("web".to_owned());
    budget.metadata.namespace = Some("default".to_owned());
    budget.spec = Some(PodDisruptionBudgetSpec {
        max_unavailable: Some(IntOrString::Int(most)),
        selector: Some(LabelSelector {
            match_labels: Some([("app".to_owned(), "web".to_owned())].into()),
            match_expressions: None,
        }),
        ..PodDisruptionBudgetSpec::default()
    });
    budget
}

fn status(cluster: &Cluster) -> PodDisruptionBudgetStatus {
    let budget: Option<PodDisruptionBudget> = cluster.find("web");
    budget.and_then(|budget| budget.status).unwrap_or_default()
}

#[tokio::test]
async fn a_budget_reports_how_many_pods_may_be_disrupted() {
    let components = [
        Component::Controller("disruption"),
        Component::Controller("replicaset"),
        Component::Scheduler,
        Component::nodes(1),
    ];
    let (cluster, _components) = Cluster::with(components).await;
    let client = cluster.client("test");
    client.namespaced("default").create(&budget(1)).await.unwrap();
    client
        .namespaced("default")
        .create(&replica_set("web").replicas(3).build())
        .await
        .unwrap();
    cluster
        .until("one pod that may go", |cluster| {
            status(cluster).disruptions_allowed == Some(1)
        })
        .await;
    let status = status(&cluster);
    assert_eq!(
        (
            status.expected_pods,
            status.desired_healthy,
            status.current_healthy
        ),
        (Some(3), Some(2), Some(3))
    );
    let condition = &status.conditions.unwrap()[0];
    assert_eq!(
        (condition.type_.as_str(), condition.reason.as_str()),
        ("DisruptionAllowed", "SufficientPods")
    );
    assert_eq!(status.observed_generation, Some(1));
}

#[tokio::test]
async fn without_pods_no_disruption_is_allowed() {
    let (cluster, _components) = Cluster::with([Component::Controller("disruption")]).await;
    cluster
        .client("test")
        .namespaced("default")
        .create(&budget(1))
        .await
        .unwrap();
    cluster
        .until("a status", |cluster| {
            status(cluster).observed_generation == Some(1)
        })
        .await;
    let status = status(&cluster);
    assert_eq!(status.disruptions_allowed, Some(0));
    assert_eq!(status.conditions.unwrap()[0].reason, "InsufficientPods");
}
