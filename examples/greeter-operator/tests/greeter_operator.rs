//! The controller against a real API server in the test process: nothing has to be installed, and no time passes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use greeter_operator::Greeter;
use greeter_operator::greeter::GreeterSpec;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResourceExt;
use setpoint_api::options::DeleteOptions;
use setpoint_runtime::conditions;
use setpoint_testkit::{Cluster, RunningComponent};

async fn cluster() -> (Cluster, RunningComponent) {
    let cluster = Cluster::start().await;
    cluster.install_crd(&Greeter::crd()).await;
    let mut manager = cluster.manager("greeter-operator");
    greeter_operator::controller::add(&mut manager).unwrap();
    (cluster, RunningComponent::of(manager))
}

fn has_greeting(cluster: &Cluster, greeting: &str) -> bool {
    let map: Option<ConfigMap> = cluster.find("a");
    map.and_then(|map| map.data)
        .is_some_and(|data| data["greeting"] == greeting)
}

fn is_ready(cluster: &Cluster) -> bool {
    let greeter: Option<Greeter> = cluster.find("a");
    let status = greeter.and_then(|greeter| greeter.status).unwrap_or_default();
    conditions::is_true(&status.conditions, "Ready")
}

#[tokio::test]
async fn a_greeter_gets_its_config_map_and_gets_it_again_after_a_delete() {
    let (cluster, _running) = cluster().await;
    let greeting = "hello".to_owned();
    let mut greeter = Greeter::new("a", GreeterSpec { greeting });
    greeter.metadata.namespace = Some("default".to_owned());
    let client = cluster.client("test");
    client.namespaced("default").create(&greeter).await.unwrap();
    cluster
        .until("a greeting", |cluster| {
            has_greeting(cluster, "hello") && is_ready(cluster)
        })
        .await;

    let maps = client.namespaced::<ConfigMap>("default");
    maps.delete("a", DeleteOptions::default()).await.unwrap();
    cluster
        .until("the greeting again", |cluster| has_greeting(cluster, "hello"))
        .await;
}
