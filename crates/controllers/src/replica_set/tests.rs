//! The controller against a real registry.

use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Event, Pod};
use setpoint_api::options::DeleteOptions;
use setpoint_testkit::{Cluster, Component, RecordedRequest, namespace, pod, replica_set};

use super::*;

const SETS: Component = Component::Controller("replicaset");

fn pods(cluster: &Cluster) -> Vec<Pod> {
    cluster.list()
}

fn status(cluster: &Cluster, name: &str) -> k8s_openapi::api::apps::v1::ReplicaSetStatus {
    let set: Option<ReplicaSet> = cluster.find(name);
    set.and_then(|set| set.status).unwrap_or_default()
}

async fn create(cluster: &Cluster, set: ReplicaSet) {
    let namespace = set.metadata.namespace.clone().unwrap();
    cluster
        .client("test")
        .namespaced(&namespace)
        .create(&set)
        .await
        .unwrap();
}

async fn create_pod(cluster: &Cluster, pod: Pod) {
    cluster
        .client("test")
        .namespaced("default")
        .create(&pod)
        .await
        .unwrap();
}

/// Changes the newest version of a set in the default namespace.
async fn edit(cluster: &Cluster, name: &str, change: impl Fn(&mut ReplicaSet)) {
    let sets = cluster.client("test").namespaced::<ReplicaSet>("default");
    setpoint_runtime::retry_on_conflict(10, || async {
        let mut set = sets.get(name).await?.to_owned()?;
        change(&mut set);
        sets.update(&set).await
    })
    .await
    .unwrap();
}

async fn scale(cluster: &Cluster, name: &str, replicas: i32) {
    edit(cluster, name, |set| set.spec.replicas = Some(replicas)).await;
}

async fn edit_pod(cluster: &Cluster, name: &str, change: impl Fn(&mut Pod)) {
    let pods = cluster.client("test").namespaced::<Pod>("default");
    let mut pod = pods.get(name).await.unwrap().to_owned().unwrap();
    change(&mut pod);
    pods.update(&pod).await.unwrap();
}

/// Waits until the set has so many pods and its status reports them.
async fn settled_at(cluster: &Cluster, name: &str, replicas: i32) {
    let count = usize::try_from(replicas).unwrap();
    cluster
        .until(&format!("{replicas} replicas of {name}"), |cluster| {
            let prefix = format!("{name}-");
            let named = |pod: &&Pod| pod.metadata.name.as_ref().unwrap().starts_with(&prefix);
            let status = status(cluster, name);
            pods(cluster).iter().filter(named).count() == count && status.replicas == replicas
        })
        .await;
}

fn quota(call: &RecordedRequest) -> Option<Status> {
    let rejected = call.verb == "create" && call.resource == "pods";
    rejected.then(|| {
        Status::forbidden(
            &setpoint_api::GroupResource::new("", "pods"),
            "",
            "exceeded quota",
        )
    })
}

/// CL1, RS1
#[tokio::test]
async fn rs1_scaling_up_and_down_settles_at_the_desired_number() {
    let (cluster, _components) = Cluster::with([SETS]).await;
    create(&cluster, replica_set("web").replicas(3).build()).await;
    settled_at(&cluster, "web", 3).await;
    for replicas in [7, 2, 0, 4] {
        scale(&cluster, "web", replicas).await;
        settled_at(&cluster, "web", replicas).await;
    }
}

#[tokio::test]
async fn rs1_a_matching_orphan_is_adopted_and_counts() {
    let (cluster, _components) = Cluster::with([SETS]).await;
    create_pod(&cluster, pod("web-orphan").label("app", "web").build()).await;
    create(&cluster, replica_set("web").replicas(2).build()).await;
    settled_at(&cluster, "web", 2).await;
    let set: ReplicaSet = cluster.find("web").unwrap();
    let orphan: Pod = cluster.find("web-orphan").unwrap();
    assert_eq!(
        orphan.metadata.owner_references.unwrap()[0].uid,
        set.metadata.uid.unwrap()
    );
}

#[tokio::test]
async fn rs1_a_pod_created_later_is_adopted_and_an_excess_one_deleted() {
    let (cluster, _components) = Cluster::with([SETS]).await;
    create(&cluster, replica_set("web").replicas(1).build()).await;
    settled_at(&cluster, "web", 1).await;
    create_pod(&cluster, pod("web-late").label("app", "web").build()).await;
    settled_at(&cluster, "web", 1).await;
}

#[tokio::test]
async fn rs1_a_pod_that_no_longer_matches_is_released_and_replaced() {
    let (cluster, _components) = Cluster::with([SETS]).await;
    create(&cluster, replica_set("web").replicas(2).build()).await;
    settled_at(&cluster, "web", 2).await;
    let name = pods(&cluster)[0].metadata.name.clone().unwrap();
    edit_pod(&cluster, &name, |pod| {
        pod.metadata.labels = Some([("app".to_owned(), "debug".to_owned())].into());
    })
    .await;
    cluster
        .until("a replacement", |cluster| {
            pods(cluster).len() == 3 && status(cluster, "web").replicas == 2
        })
        .await;
    let released: Pod = cluster.find(&name).unwrap();
    assert!(released.metadata.owner_references.unwrap_or_default().is_empty());
}

#[tokio::test]
async fn rs2_from_two_to_three_is_exactly_one_more_pod_of_that_set() {
    let (cluster, _components) = Cluster::with([SETS]).await;
    let client = cluster.client("test");
    client.all().create(&namespace("nsa")).await.unwrap();
    create(
        &cluster,
        replica_set("rsa").in_namespace("nsa").replicas(2).build(),
    )
    .await;
    cluster
        .until("two pods", |cluster| pods(cluster).len() == 2)
        .await;
    cluster.settle().await;
    cluster.interceptor.clear();
    let sets = client.namespaced::<ReplicaSet>("nsa");
    let mut set = sets.get("rsa").await.unwrap().to_owned().unwrap();
    set.spec.replicas = Some(3);
    sets.update(&set).await.unwrap();
    cluster
        .until("three pods", |cluster| pods(cluster).len() == 3)
        .await;
    cluster.settle().await;
    assert_eq!(cluster.interceptor.count("replicaset-controller create pods"), 1);
    assert_eq!(cluster.interceptor.count("replicaset-controller delete pods"), 0);
    assert!(pods(&cluster).iter().all(|pod| {
        let owner = &pod.metadata.owner_references.as_ref().unwrap()[0];
        Some(&owner.uid) == set.metadata.uid.as_ref() && owner.name == "rsa"
    }));
}

#[tokio::test]
async fn rs3_a_pod_enqueues_its_own_set_and_no_other() {
    let (cluster, _components) = Cluster::with([SETS]).await;
    for name in ["one", "two"] {
        create(&cluster, replica_set(name).build()).await;
        settled_at(&cluster, name, 1).await;
    }
    let sets: Lister<ReplicaSet> = Lister::new(cluster.cache::<ReplicaSet>());
    for object in cluster.cache::<Pod>().snapshot().iter() {
        let owner = object.controller().unwrap().name.clone();
        let woken = sets_to_enqueue(&sets, &Change::Added(object.clone()));
        assert_eq!(woken, [Key::new("default", &owner)]);
    }
}

#[tokio::test]
async fn rs4_the_status_follows_the_pods_and_the_passing_of_time() {
    let (cluster, _components) = Cluster::with([SETS, Component::Scheduler, Component::nodes(1)]).await;
    let start = cluster.clock.now();
    create(
        &cluster,
        replica_set("web").replicas(2).min_ready_seconds(60).build(),
    )
    .await;
    cluster
        .until("two available replicas", |cluster| {
            status(cluster, "web").available_replicas == Some(2)
        })
        .await;
    let waited = cluster.clock.now().duration_since(start).as_secs();
    assert!(waited >= 60, "they were available after {waited} seconds");
    let set: ReplicaSet = cluster.find("web").unwrap();
    let status = set.status.unwrap();
    assert_eq!(
        (
            status.replicas,
            status.ready_replicas,
            status.fully_labeled_replicas
        ),
        (2, Some(2), Some(2))
    );
    assert_eq!(status.observed_generation, set.metadata.generation);
}

#[tokio::test]
async fn rs6_one_sync_creates_at_most_a_burst() {
    let cluster = Cluster::start().await;
    create(&cluster, replica_set("web").replicas(1200).build()).await;
    cluster.settle().await;
    let context = cluster.context(NAME);
    let sets = ReplicaSets::<ReplicaSet>::new(&context).unwrap();
    for expected in [500, 1000, 1200, 1200] {
        sets.reconcile(&Key::new("default", "web"), &context.client)
            .await
            .unwrap();
        cluster.settle().await;
        assert_eq!(pods(&cluster).len(), expected);
    }
}

#[tokio::test]
async fn rs7_a_stale_cache_never_creates_a_pod_too_many() {
    let cluster = Cluster::start().await;
    let lagging_caches = cluster.lagging_caches();
    let _component = cluster.run_with_caches(lagging_caches.clone(), SETS);
    lagging_caches.pause::<Pod>();
    create(&cluster, replica_set("web").replicas(5).build()).await;
    cluster
        .until("five pods", |cluster| pods(cluster).len() == 5)
        .await;
    for n in 0..100 {
        edit(&cluster, "web", |set| {
            let annotations = set.metadata.annotations.get_or_insert_default();
            annotations.insert("touched".to_owned(), n.to_string());
        })
        .await;
    }
    cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(pods(&cluster).len(), 5);
    lagging_caches.resume::<Pod>();
    settled_at(&cluster, "web", 5).await;
    cluster.settle().await;
    assert_eq!(pods(&cluster).len(), 5);
}

#[tokio::test]
async fn rs8_a_quota_that_rejects_everything_gets_one_request_per_sync() {
    let cluster = Cluster::start().await;
    create(&cluster, replica_set("web").replicas(50).build()).await;
    cluster.settle().await;
    let context = cluster.context(NAME);
    let sets = ReplicaSets::<ReplicaSet>::new(&context).unwrap();
    cluster.interceptor.reject(quota);
    let rejected = sets.reconcile(&Key::new("default", "web"), &context.client).await;
    assert!(rejected.unwrap_err().to_string().contains("exceeded quota"));
    assert_eq!(cluster.interceptor.count("replicaset-controller create pods"), 1);
}

#[tokio::test]
async fn rs9_after_a_failure_the_set_is_tried_again_soon() {
    let (cluster, _components) = Cluster::with([SETS]).await;
    cluster.interceptor.reject(quota);
    let start = cluster.clock.now();
    create(&cluster, replica_set("web").replicas(2).build()).await;
    cluster
        .until("the condition", |cluster| {
            let conditions = status(cluster, "web").conditions.unwrap_or_default();
            let reason = conditions.first().and_then(|one| one.reason.as_deref());
            reason == Some("FailedCreate")
        })
        .await;
    cluster.interceptor.allow_all();
    settled_at(&cluster, "web", 2).await;
    let waited = cluster.clock.now().duration_since(start).as_secs();
    assert!(waited < 60, "it took {waited} seconds");
    cluster
        .until("no condition", |cluster| {
            status(cluster, "web").conditions.is_none()
        })
        .await;
}

#[tokio::test]
async fn rs10_pods_are_created_with_a_reference_to_their_controller() {
    let (cluster, _components) = Cluster::with([SETS]).await;
    create(&cluster, replica_set("web").build()).await;
    settled_at(&cluster, "web", 1).await;
    let set: ReplicaSet = cluster.find("web").unwrap();
    let owners = pods(&cluster).remove(0).metadata.owner_references.unwrap();
    assert_eq!(owners.len(), 1);
    assert_eq!(
        (owners[0].kind.as_str(), owners[0].api_version.as_str()),
        ("ReplicaSet", "apps/v1")
    );
    assert_eq!(Some(&owners[0].uid), set.metadata.uid.as_ref());
    assert_eq!(
        (owners[0].controller, owners[0].block_owner_deletion),
        (Some(true), Some(true))
    );
}

#[tokio::test]
async fn rs12_a_failed_deletion_stops_no_other_and_is_tried_again() {
    let (cluster, _components) = Cluster::with([SETS]).await;
    create(&cluster, replica_set("web").replicas(4).build()).await;
    settled_at(&cluster, "web", 4).await;
    let kept = pods(&cluster)[0].metadata.name.clone().unwrap();
    let stubborn = kept.clone();
    cluster.interceptor.reject(move |call| {
        let rejected = call.verb == "delete" && call.name == stubborn;
        rejected.then(|| Status::internal("no"))
    });
    scale(&cluster, "web", 0).await;
    cluster.until("one pod", |cluster| pods(cluster).len() == 1).await;
    assert_eq!(pods(&cluster)[0].metadata.name.as_ref(), Some(&kept));
    cluster.interceptor.allow_all();
    settled_at(&cluster, "web", 0).await;
}

#[tokio::test]
async fn rs14_an_error_requeues_the_set() {
    let (cluster, _components) = Cluster::with([SETS]).await;
    cluster.interceptor.reject(|call| {
        let rejected = call.user == NAME && call.resource == "replicasets/status";
        rejected.then(|| Status::internal("no"))
    });
    create(&cluster, replica_set("web").replicas(2).build()).await;
    cluster
        .until("two pods", |cluster| pods(cluster).len() == 2)
        .await;
    cluster.settle().await;
    assert_eq!(status(&cluster, "web").replicas, 0);
    cluster.interceptor.allow_all();
    settled_at(&cluster, "web", 2).await;
}

#[tokio::test]
async fn tr4_one_reconcile_corrects_everything_that_was_missed() {
    let cluster = Cluster::start().await;
    create(&cluster, replica_set("web").replicas(5).build()).await;
    cluster.settle().await;
    let key = Key::new("default", "web");
    let context = cluster.context(NAME);
    let sets = ReplicaSets::<ReplicaSet>::new(&context).unwrap();
    sets.reconcile(&key, &context.client).await.unwrap();
    cluster.settle().await;
    let handle = cluster.client("test").namespaced::<Pod>("default");
    for pod in pods(&cluster).iter().take(3) {
        let name = pod.metadata.name.as_ref().unwrap();
        handle.delete(name, DeleteOptions::default()).await.unwrap();
    }
    cluster.settle().await;
    assert_eq!(pods(&cluster).len(), 2);
    sets.reconcile(&key, &context.client).await.unwrap();
    cluster.settle().await;
    assert_eq!(pods(&cluster).len(), 5);
}

#[tokio::test]
async fn cl5_further_reconciles_of_a_settled_set_write_nothing() {
    let (cluster, _components) = Cluster::with([SETS, Component::Scheduler, Component::nodes(2)]).await;
    create(&cluster, replica_set("web").replicas(5).build()).await;
    cluster
        .until("five available", |cluster| {
            status(cluster, "web").available_replicas == Some(5)
        })
        .await;
    cluster.settle().await;
    let before = (cluster.versions::<Pod>(), cluster.versions::<ReplicaSet>());
    cluster.interceptor.clear();
    let context = cluster.context(NAME);
    let sets = ReplicaSets::<ReplicaSet>::new(&context).unwrap();
    for _ in 0..20 {
        sets.reconcile(&Key::new("default", "web"), &context.client)
            .await
            .unwrap();
    }
    assert_eq!(cluster.interceptor.writes(), Vec::<String>::new());
    assert_eq!(
        (cluster.versions::<Pod>(), cluster.versions::<ReplicaSet>()),
        before
    );
}

#[tokio::test]
async fn every_action_is_recorded_as_an_event() {
    let (cluster, _components) = Cluster::with([SETS]).await;
    create(&cluster, replica_set("web").build()).await;
    settled_at(&cluster, "web", 1).await;
    let name = pods(&cluster)[0].metadata.name.clone().unwrap();
    cluster.advance(Duration::from_secs(1)).await;
    scale(&cluster, "web", 0).await;
    let message_of = |cluster: &Cluster, reason: &str| {
        let events: Vec<Event> = cluster.list();
        let event = events
            .into_iter()
            .find(|event| event.reason.as_deref() == Some(reason));
        event.and_then(|event| event.message)
    };
    cluster
        .until("both events", |cluster| {
            message_of(cluster, "SuccessfulCreate").is_some()
                && message_of(cluster, "SuccessfulDelete").is_some()
        })
        .await;
    assert_eq!(
        message_of(&cluster, "SuccessfulCreate").unwrap(),
        format!("Created pod: {name}")
    );
    assert_eq!(
        message_of(&cluster, "SuccessfulDelete").unwrap(),
        format!("Deleted pod: {name}")
    );
}

#[tokio::test]
async fn a_terminating_set_creates_nothing() {
    let cluster = Cluster::start().await;
    let mut held = replica_set("web").replicas(2).build();
    held.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
    create(&cluster, held).await;
    let client = cluster.client("test").namespaced::<ReplicaSet>("default");
    client.delete("web", DeleteOptions::default()).await.unwrap();
    cluster.settle().await;
    let context = cluster.context(NAME);
    let sets = ReplicaSets::<ReplicaSet>::new(&context).unwrap();
    sets.reconcile(&Key::new("default", "web"), &context.client)
        .await
        .unwrap();
    cluster.settle().await;
    assert!(pods(&cluster).is_empty());
}
