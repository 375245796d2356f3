//! The controller against a real registry, with pods that nodes run.

use setpoint_testkit::{Cluster, Component, pod, replica_set, service};

use super::*;

const SLICES: Component = Component::Controller("endpointslice");

async fn create<T: Object>(cluster: &Cluster, object: &T) {
    cluster
        .client("test")
        .namespaced("default")
        .create(object)
        .await
        .unwrap();
}

fn slices(cluster: &Cluster) -> Vec<EndpointSlice> {
    let all: Vec<EndpointSlice> = cluster.list();
    let of_web = |slice: &EndpointSlice| {
        let labels = slice.metadata.labels.as_ref();
        labels
            .and_then(|labels| labels.get(SERVICE_NAME))
            .is_some_and(|name| name == "web")
    };
    all.into_iter().filter(of_web).collect()
}

/// How many endpoints of how many slices are ready.
fn ready(cluster: &Cluster) -> (usize, usize) {
    let slices = slices(cluster);
    let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
    let ready = endpoints.filter(|one| one.conditions.as_ref().unwrap().ready == Some(true));
    (slices.len(), ready.count())
}

#[tokio::test]
async fn a_service_without_pods_has_one_empty_slice() {
    let (cluster, _components) = Cluster::with([SLICES]).await;
    create(&cluster, &service("web", 80).build()).await;
    cluster
        .until("a slice", |cluster| slices(cluster).len() == 1)
        .await;
    let slice = slices(&cluster).remove(0);
    assert_eq!(slice.address_type, "IPv4");
    assert_eq!(slice.metadata.labels.as_ref().unwrap()[MANAGED_BY], MANAGER);
    assert_eq!(slice.metadata.owner_references.unwrap()[0].kind, "Service");
}

#[tokio::test]
async fn endpoints_follow_the_pods() {
    let components = [
        SLICES,
        Component::Controller("replicaset"),
        Component::Scheduler,
        Component::nodes(1),
    ];
    let (cluster, _components) = Cluster::with(components).await;
    create(&cluster, &service("web", 80).build()).await;
    create(&cluster, &replica_set("web").replicas(3).build()).await;
    cluster
        .until("three endpoints", |cluster| ready(cluster) == (1, 3))
        .await;
    let slice = slices(&cluster).remove(0);
    assert_eq!(slice.ports.unwrap()[0].port, Some(80));
    let sets = cluster
        .client("test")
        .namespaced::<k8s_openapi::api::apps::v1::ReplicaSet>("default");
    setpoint_runtime::retry_on_conflict(10, || async {
        let mut set = sets.get("web").await?.to_owned()?;
        set.spec.replicas = Some(1);
        sets.update(&set).await
    })
    .await
    .unwrap();
    cluster
        .until("one endpoint", |cluster| ready(cluster) == (1, 1))
        .await;
}

#[tokio::test]
async fn many_endpoints_are_spread_over_slices() {
    let components = [
        SLICES,
        Component::Controller("replicaset"),
        Component::Scheduler,
        Component::nodes(3),
    ];
    let (cluster, _components) = Cluster::with(components).await;
    create(&cluster, &service("web", 80).build()).await;
    create(&cluster, &replica_set("web").replicas(250).build()).await;
    cluster
        .until("all endpoints", |cluster| ready(cluster).1 == 250)
        .await;
    let sizes: Vec<usize> = slices(&cluster)
        .iter()
        .map(|slice| slice.endpoints.as_ref().unwrap().len())
        .collect();
    assert!(
        sizes.iter().all(|size| *size <= plan::SLICE_ENDPOINTS),
        "{sizes:?}"
    );
    assert!(sizes.len() <= 4, "{sizes:?}");
}

/// CL5
#[tokio::test]
async fn cl5_further_reconciles_write_nothing() {
    let (cluster, _components) = Cluster::with([SLICES, Component::Scheduler, Component::nodes(1)]).await;
    create(&cluster, &service("web", 80).build()).await;
    create(&cluster, &pod("one").label("app", "web").build()).await;
    cluster
        .until("an endpoint", |cluster| ready(cluster) == (1, 1))
        .await;
    cluster.settle().await;
    cluster.interceptor.clear();
    let context = cluster.context(NAME);
    let slices = Slices::new(&context).unwrap();
    for _ in 0..10 {
        slices
            .reconcile(&Key::new("default", "web"), &context.client)
            .await
            .unwrap();
    }
    assert_eq!(cluster.interceptor.writes(), Vec::<String>::new());
}
