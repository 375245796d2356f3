//! The controller against a real API server in the test process, with the controllers that Deployments need.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_names, reason = "a Foo is called so upstream")]

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use sample_controller::Foo;
use sample_controller::foo::FooSpec;
use setpoint_api::options::DeleteOptions;
use setpoint_runtime::{RbacRules, retry_on_conflict};
use setpoint_testkit::{Cluster, Component, RunningComponent, deployment};

/// A cluster that runs Deployments, with the sample controller, and its RBAC rules.
async fn cluster() -> (Cluster, Vec<RunningComponent>, RbacRules) {
    let components = ["deployment", "replicaset", "garbage-collector"].map(Component::Controller);
    let components = components
        .into_iter()
        .chain([Component::Scheduler, Component::nodes(2)]);
    let (cluster, mut running) = Cluster::with(components).await;
    cluster.install_crd(&Foo::crd()).await;
    let mut manager = cluster.manager("sample-controller");
    sample_controller::add(&mut manager).unwrap();
    let rbac_rules = manager.rbac_rules();
    running.push(RunningComponent::of(manager));
    (cluster, running, rbac_rules)
}

fn foo(name: &str, deployment: &str, replicas: i32) -> Foo {
    let spec = FooSpec {
        deployment_name: deployment.to_owned(),
        replicas: Some(replicas),
    };
    let mut foo = Foo::new(name, spec);
    foo.metadata.namespace = Some("default".to_owned());
    foo
}

async fn create(cluster: &Cluster, foo: &Foo) {
    cluster
        .client("test")
        .namespaced("default")
        .create(foo)
        .await
        .unwrap();
}

fn available(cluster: &Cluster, name: &str) -> Option<i32> {
    let foo: Option<Foo> = cluster.find(name);
    Some(foo?.status?.available_replicas)
}

fn has_event(cluster: &Cluster, type_: &str, reason: &str, message: &str) -> bool {
    let events: Vec<Event> = cluster.list();
    events.iter().any(|event| {
        let fields = (
            event.type_.as_deref(),
            event.reason.as_deref(),
            event.message.as_deref(),
        );
        fields == (Some(type_), Some(reason), Some(message))
    })
}

/// TO3
#[tokio::test]
async fn to3_a_foo_gets_its_deployment_and_reports_its_available_replicas() {
    let (cluster, _running, rbac_rules) = cluster().await;
    create(&cluster, &foo("example-foo", "example-foo", 2)).await;
    cluster
        .until("two available", |cluster| {
            available(cluster, "example-foo") == Some(2)
        })
        .await;
    let deployment: Deployment = cluster.find("example-foo").unwrap();
    let owners = deployment.metadata.owner_references.unwrap();
    assert_eq!(
        (owners[0].kind.as_str(), owners[0].controller),
        ("Foo", Some(true))
    );
    cluster
        .until("an event", |cluster| {
            has_event(cluster, "Normal", "Synced", "Foo synced successfully")
        })
        .await;

    let foos = cluster.client("test").namespaced::<Foo>("default");
    retry_on_conflict(10, || async {
        let mut foo = foos.get("example-foo").await?.to_owned()?;
        foo.spec.replicas = Some(4);
        foos.update(&foo).await
    })
    .await
    .unwrap();
    cluster
        .until("four available", |cluster| {
            available(cluster, "example-foo") == Some(4)
        })
        .await;
    let undeclared = cluster.interceptor.undeclared("sample-controller", &rbac_rules);
    assert!(undeclared.is_empty(), "its role lacks {undeclared:?}");
}

/// TO4
#[tokio::test]
async fn to4_a_deleted_deployment_is_recreated_and_is_deleted_with_its_foo() {
    let (cluster, _running, _) = cluster().await;
    create(&cluster, &foo("a", "web", 1)).await;
    let uid = |cluster: &Cluster| {
        cluster
            .find::<Deployment>("web")
            .and_then(|found| found.metadata.uid)
    };
    cluster
        .until("a deployment", |cluster| uid(cluster).is_some())
        .await;
    let first = uid(&cluster);
    let client = cluster.client("test");
    let deployments = client.namespaced::<Deployment>("default");
    deployments.delete("web", DeleteOptions::default()).await.unwrap();
    cluster
        .until("another deployment", |cluster| {
            uid(cluster).is_some() && uid(cluster) != first
        })
        .await;
    client
        .namespaced::<Foo>("default")
        .delete("a", DeleteOptions::default())
        .await
        .unwrap();
    cluster
        .until("no deployment", |cluster| uid(cluster).is_none())
        .await;
}

/// TO3
#[tokio::test]
async fn to3_a_deployment_of_another_owner_is_left_alone_with_a_warning() {
    let (cluster, _running, _) = cluster().await;
    let client = cluster.client("test");
    client
        .namespaced("default")
        .create(&deployment("taken").build())
        .await
        .unwrap();
    create(&cluster, &foo("a", "taken", 3)).await;
    let message = "Resource \"taken\" already exists and is not managed by Foo";
    cluster
        .until("a warning event", |cluster| {
            has_event(cluster, "Warning", "ErrResourceExists", message)
        })
        .await;
    let taken: Deployment = cluster.find("taken").unwrap();
    assert!(taken.metadata.owner_references.is_none());
    assert_eq!(available(&cluster, "a"), None);
}

/// CR3
#[test]
fn cr3_the_manifest_is_that_of_the_type() {
    let manifest = include_str!("../artifacts/crd.yaml");
    let manifest: CustomResourceDefinition = serde_saphyr::from_str(manifest).unwrap();
    let (manifest, derived) = (
        serde_json::to_value(manifest).unwrap(),
        serde_json::to_value(Foo::crd()).unwrap(),
    );
    assert_eq!(manifest, derived, "{derived:#}");
}
