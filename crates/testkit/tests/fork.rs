//! Forks of a cluster: what they have in common with their origin, and what not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service, ServicePort, ServiceSpec};
use k8s_openapi::api::networking::v1::IPAddress;
use setpoint_api::ResourceVersion;
use setpoint_testkit::{Cluster, Component, config_map, deployment};
use tokio::task::JoinSet;

fn names(cluster: &Cluster) -> Vec<String> {
    let maps = cluster.list::<ConfigMap>();
    maps.into_iter().filter_map(|map| map.metadata.name).collect()
}

async fn create(cluster: &Cluster, name: &str) -> u64 {
    let maps = cluster.client("test").namespaced::<ConfigMap>("default");
    let created = maps.create(&config_map(name, "a", "b")).await.unwrap();
    created.stored().resource_version().0
}

#[tokio::test]
async fn a_fork_and_its_origin_do_not_see_writes_of_each_other() {
    let origin = Cluster::start().await;
    let before = create(&origin, "before").await;
    let fork = origin.fork().await;
    assert_eq!(origin.revision(), fork.revision());
    let (in_fork, in_origin) = (create(&fork, "fork").await, create(&origin, "origin").await);
    assert_eq!((in_fork, in_origin), (before + 1, before + 1));
    origin.wait_until_quiet().await.unwrap();
    fork.wait_until_quiet().await.unwrap();
    assert_eq!(names(&origin), ["before", "origin"]);
    assert_eq!(names(&fork), ["before", "fork"]);
    let second = fork.fork().await;
    assert_eq!(names(&second), ["before", "fork"]);
}

#[tokio::test]
async fn a_watch_in_a_fork_starts_at_a_revision_before_the_fork() {
    let origin = Cluster::start().await;
    let version = create(&origin, "first").await;
    create(&origin, "second").await;
    let fork = origin.fork().await;
    create(&fork, "third").await;
    let mut changes = fork
        .cache::<ConfigMap>()
        .subscribe(Some(ResourceVersion(version)))
        .unwrap();
    let mut names = Vec::new();
    while names.len() < 2 {
        let batch = changes.next().await.unwrap();
        let changes = batch.changes().iter();
        names.extend(changes.map(|change| change.object().key().name().to_owned()));
    }
    assert_eq!(names, ["second", "third"]);
}

#[tokio::test]
async fn controllers_of_the_origin_do_not_act_in_the_fork() {
    let (origin, _running) = Cluster::with([
        Component::Controller("deployment"),
        Component::Controller("replicaset"),
    ])
    .await;
    let fork = origin.fork().await;
    for cluster in [&origin, &fork] {
        let deployments = cluster.client("test").namespaced::<Deployment>("default");
        deployments.create(&deployment("web").build()).await.unwrap();
    }
    origin.wait_until_quiet().await.unwrap();
    fork.wait_until_quiet().await.unwrap();
    let pods = |cluster: &Cluster| cluster.list::<Pod>().len();
    assert_eq!((pods(&origin), pods(&fork)), (1, 0));
}

fn service(name: &str) -> Service {
    let mut service = Service::default();
    service.metadata.name = Some(name.to_owned());
    service.spec = Some(ServiceSpec {
        ports: Some(vec![ServicePort {
            port: 80,
            ..ServicePort::default()
        }]),
        ..ServiceSpec::default()
    });
    service
}

/// Each Service is created in one transaction with its IPAddress.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_under_writes_has_every_acknowledged_one_and_none_by_half() {
    let (origin, _) = Cluster::with_default_admission([]).await;
    let origin = Arc::new(origin);
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let mut writer = JoinSet::new();
    let (cluster, count) = (origin.clone(), acknowledged.clone());
    writer.spawn(async move {
        let services = cluster.client("test").namespaced::<Service>("default");
        for number in 0..100 {
            services
                .create(&service(&format!("s-{number:03}")))
                .await
                .unwrap();
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let mut forks = 0;
    while writer.try_join_next().is_none() {
        let expected = acknowledged.load(Ordering::SeqCst);
        let fork = origin.fork().await;
        fork.settle().await;
        let services = fork.list::<Service>();
        let addresses = fork.list::<IPAddress>();
        assert!(services.len() >= expected, "{} of {expected}", services.len());
        assert_eq!(addresses.len(), services.len());
        let names: Vec<String> = services.into_iter().filter_map(|one| one.metadata.name).collect();
        let prefix: Vec<String> = (0..names.len()).map(|number| format!("s-{number:03}")).collect();
        assert_eq!(names, prefix);
        forks += 1;
    }
    assert!(forks > 0);
}
