//! The controller against a real registry.

use setpoint_testkit::{Cluster, Component, pod, service};

use super::*;

fn addresses(cluster: &Cluster) -> Option<usize> {
    let endpoints: Option<Endpoints> = cluster.find("web");
    let subsets = endpoints?.subsets.unwrap_or_default();
    Some(
        subsets
            .iter()
            .map(|subset| subset.addresses.iter().flatten().count())
            .sum(),
    )
}

#[tokio::test]
async fn the_object_follows_the_pods_and_is_deleted_with_its_service() {
    let components = [
        Component::Controller("endpoints"),
        Component::Scheduler,
        Component::nodes(1),
    ];
    let (cluster, _components) = Cluster::with(components).await;
    let client = cluster.client("test");
    client
        .namespaced("default")
        .create(&service("web", 80).build())
        .await
        .unwrap();
    cluster
        .until("an object", |cluster| addresses(cluster) == Some(0))
        .await;
    let pod = pod("one").label("app", "web").build();
    client.namespaced("default").create(&pod).await.unwrap();
    cluster
        .until("an address", |cluster| addresses(cluster) == Some(1))
        .await;
    let endpoints: Endpoints = cluster.find("web").unwrap();
    assert_eq!(endpoints.metadata.labels.unwrap()[MANAGED_BY], MANAGER);
    let services = client.namespaced::<Service>("default");
    services.delete("web", DeleteOptions::default()).await.unwrap();
    cluster
        .until("nothing left", |cluster| addresses(cluster).is_none())
        .await;
}
