//! The controller against a real registry, with the scheduler and nodes.

use k8s_openapi::api::apps::v1::DaemonSetSpec;
use setpoint_api::options::DeleteOptions;
use setpoint_testkit::{Cluster, Component, node, replica_set};

use super::*;

const SETS: Component = Component::Controller("daemonset");

fn daemon_set() -> DaemonSet {
    let model = replica_set("agent").build();
    DaemonSet {
        metadata: model.metadata,
        spec: DaemonSetSpec {
            selector: model.spec.selector,
            template: model.spec.template.unwrap_or_default(),
            ..DaemonSetSpec::default()
        },
        status: None,
    }
}

async fn create(cluster: &Cluster) {
    cluster
        .client("test")
        .namespaced("default")
        .create(&daemon_set())
        .await
        .unwrap();
}

fn seen(cluster: &Cluster) -> DaemonSetStatus {
    let set: Option<DaemonSet> = cluster.find("agent");
    set.and_then(|set| set.status).unwrap_or_default()
}

fn nodes_of_pods(cluster: &Cluster) -> Vec<String> {
    let pods: Vec<v1::Pod> = cluster.list();
    let mut nodes: Vec<String> = pods.into_iter().filter_map(|pod| pod.spec?.node_name).collect();
    nodes.sort();
    nodes
}

#[tokio::test]
async fn every_node_has_a_pod_and_a_new_one_gets_its_own() {
    let (cluster, _components) = Cluster::with([SETS, Component::Scheduler, Component::nodes(3)]).await;
    create(&cluster).await;
    cluster
        .until("three pods", |cluster| seen(cluster).number_available == Some(3))
        .await;
    assert_eq!(nodes_of_pods(&cluster), ["node-0", "node-1", "node-2"]);
    cluster
        .client("test")
        .all()
        .create(&node("late").build())
        .await
        .unwrap();
    cluster
        .until("four nodes", |cluster| {
            seen(cluster).desired_number_scheduled == 4
        })
        .await;
    cluster
        .until("a pod there", |cluster| {
            nodes_of_pods(cluster).contains(&"late".to_owned())
        })
        .await;
}

#[tokio::test]
async fn a_new_template_replaces_all_pods_a_few_at_a_time() {
    let (cluster, _components) = Cluster::with([SETS, Component::Scheduler, Component::nodes(3)]).await;
    create(&cluster).await;
    cluster
        .until("three pods", |cluster| seen(cluster).number_available == Some(3))
        .await;
    let handle = cluster.client("test").namespaced::<DaemonSet>("default");
    setpoint_runtime::retry_on_conflict(10, || async {
        let mut set = handle.get("agent").await?.to_owned()?;
        set.spec.template.spec.as_mut().unwrap().containers[0].image = Some("example.com/app:2".to_owned());
        handle.update(&set).await
    })
    .await
    .unwrap();
    cluster
        .until("three new pods", |cluster| {
            let status = seen(cluster);
            assert!(status.number_unavailable.unwrap_or(0) <= 1, "{status:?}");
            status.observed_generation == Some(2)
                && status.updated_number_scheduled == Some(3)
                && status.number_available == Some(3)
        })
        .await;
    assert_eq!(cluster.list::<ControllerRevision>().len(), 2);
}

/// CL5
#[tokio::test]
async fn cl5_further_reconciles_of_a_settled_set_write_nothing() {
    let (cluster, _components) = Cluster::with([SETS, Component::Scheduler, Component::nodes(2)]).await;
    create(&cluster).await;
    cluster
        .until("two pods", |cluster| seen(cluster).number_available == Some(2))
        .await;
    cluster.settle().await;
    cluster.interceptor.clear();
    let context = cluster.context(NAME);
    let sets = DaemonSets::new(&context).unwrap();
    for _ in 0..10 {
        sets.reconcile(&Key::new("default", "agent"), &context.client)
            .await
            .unwrap();
    }
    assert_eq!(cluster.interceptor.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn a_revision_with_a_name_collision_gets_another_name() {
    let names = |cluster: &Cluster| -> Vec<String> {
        let revisions = cluster.list::<ControllerRevision>();
        revisions
            .iter()
            .map(|one| revisions::name(one).to_owned())
            .collect()
    };
    let (cluster, components) = Cluster::with([SETS]).await;
    create(&cluster).await;
    cluster
        .until("a revision", |cluster| names(cluster).len() == 1)
        .await;
    for component in components {
        component.kill().await;
    }
    let taken = names(&cluster).remove(0);
    let handle = cluster.client("test").namespaced::<ControllerRevision>("default");
    let mut other = handle.get(&taken).await.unwrap().to_owned().unwrap();
    handle.delete(&taken, DeleteOptions::default()).await.unwrap();
    other.metadata.owner_references = None;
    other.metadata.labels = None;
    other.metadata.resource_version = None;
    handle.create(&other).await.unwrap();
    let _component = cluster.run(SETS);
    cluster
        .until("another", |cluster| names(cluster).len() == 2)
        .await;
    assert_eq!(seen(&cluster).collision_count, Some(1));
}
