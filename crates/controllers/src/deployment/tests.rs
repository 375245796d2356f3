//! The controller against a real registry, together with the ReplicaSet controller.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use setpoint_testkit::{Cluster, Component, RunningComponent, deployment};

use super::*;

const DEPLOYMENTS: Component = Component::Controller("deployment");
const SETS: Component = Component::Controller("replicaset");

async fn cluster() -> (Cluster, Vec<RunningComponent>) {
    Cluster::with([DEPLOYMENTS, SETS, Component::Scheduler, Component::nodes(2)]).await
}

async fn create(cluster: &Cluster, deployment: Deployment) {
    let deployments = cluster.client("test").namespaced("default");
    deployments.create(&deployment).await.unwrap();
}

/// Changes the newest version of a Deployment.
async fn edit(cluster: &Cluster, name: &str, change: impl Fn(&mut Deployment)) {
    let handle = cluster.client("test").namespaced::<Deployment>("default");
    setpoint_runtime::retry_on_conflict(10, || async {
        let mut deployment = handle.get(name).await?.to_owned()?;
        change(&mut deployment);
        handle.update(&deployment).await
    })
    .await
    .unwrap();
}

fn set_image(image: &'static str) -> impl Fn(&mut Deployment) {
    move |deployment| {
        let spec = deployment.spec.template.spec.as_mut().unwrap();
        spec.containers[0].image = Some(image.to_owned());
    }
}

fn status(cluster: &Cluster, name: &str) -> DeploymentStatus {
    let deployment: Option<Deployment> = cluster.find(name);
    deployment
        .and_then(|deployment| deployment.status)
        .unwrap_or_default()
}

fn reason(cluster: &Cluster, name: &str, type_: &str) -> String {
    let conditions = status(cluster, name).conditions.unwrap_or_default();
    let condition = conditions
        .into_iter()
        .find(|one| one.type_.as_deref() == Some(type_));
    condition
        .and_then(|condition| condition.reason)
        .unwrap_or_default()
}

fn sets_of(cluster: &Cluster) -> Vec<ReplicaSet> {
    cluster.list()
}

/// Waits until all pods are of the newest template and available.
async fn complete(cluster: &Cluster, name: &str) {
    cluster
        .until("a complete rollout", |cluster| {
            let deployment: Option<Deployment> = cluster.find(name);
            deployment.is_some_and(|deployment| {
                let status = deployment.status.clone().unwrap_or_default();
                super::status::is_complete(&deployment, &status)
            })
        })
        .await;
}

/// FL1, FL2
#[tokio::test]
async fn fl1_a_deployment_gets_a_set_of_its_own_and_its_pods() {
    let (cluster, _components) = cluster().await;
    create(&cluster, deployment("web").replicas(3).build()).await;
    complete(&cluster, "web").await;
    let sets = sets_of(&cluster);
    assert_eq!(sets.len(), 1);
    let owner = &sets[0].metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (owner.kind.as_str(), owner.name.as_str(), owner.controller),
        ("Deployment", "web", Some(true))
    );
    let hash = &sets[0].spec.selector.match_labels.as_ref().unwrap()[sets::HASH_LABEL];
    assert_eq!(
        sets[0].metadata.name.as_deref(),
        Some(format!("web-{hash}").as_str())
    );
    let deployment: Deployment = cluster.find("web").unwrap();
    assert_eq!(deployment.metadata.annotations.unwrap()[sets::REVISION], "1");
    assert_eq!(reason(&cluster, "web", "Available"), "MinimumReplicasAvailable");
    cluster
        .until("the end of progress", |cluster| {
            reason(cluster, "web", "Progressing") == "NewReplicaSetAvailable"
        })
        .await;
}

/// A new template is rolled out without ever having too many pods or too few available ones.
#[tokio::test]
async fn a_rolling_update_keeps_its_bounds() {
    let (cluster, _components) = cluster().await;
    create(&cluster, deployment("web").replicas(8).build()).await;
    complete(&cluster, "web").await;
    edit(&cluster, "web", set_image("example.com/app:2")).await;
    cluster
        .until("a rollout", |cluster| {
            let sets = sets_of(cluster);
            let desired_replicas: i32 = sets.iter().map(sets::replicas).sum();
            let available: i32 = sets.iter().map(sets::available).sum();
            assert!(desired_replicas <= 10, "{desired_replicas} desired replicas");
            assert!(available >= 6, "{available} pods are available");
            let status = status(cluster, "web");
            sets.len() == 2
                && status.updated_replicas == Some(8)
                && status.replicas == Some(8)
                && status.available_replicas == Some(8)
        })
        .await;
    let sizes: Vec<i32> = sets_of(&cluster).iter().map(sets::replicas).collect();
    assert!(sizes == [0, 8] || sizes == [8, 0], "{sizes:?}");
    let deployment: Deployment = cluster.find("web").unwrap();
    assert_eq!(deployment.metadata.annotations.unwrap()[sets::REVISION], "2");
}

#[tokio::test]
async fn a_rollback_reuses_the_old_set_with_a_new_revision() {
    let (cluster, _components) = cluster().await;
    create(&cluster, deployment("web").replicas(2).build()).await;
    complete(&cluster, "web").await;
    let first = sets_of(&cluster).remove(0);
    for image in ["example.com/app:2", "example.com/app:1"] {
        edit(&cluster, "web", set_image(image)).await;
        cluster.advance(Duration::from_secs(5)).await;
        complete(&cluster, "web").await;
    }
    let sets = sets_of(&cluster);
    assert_eq!(sets.len(), 2);
    let first = sets
        .iter()
        .find(|set| set.metadata.uid == first.metadata.uid)
        .unwrap();
    assert_eq!((sets::revision(first), sets::replicas(first)), (3, 2));
}

#[tokio::test]
async fn a_paused_deployment_waits_for_its_resumption() {
    let (cluster, _components) = cluster().await;
    create(&cluster, deployment("web").replicas(2).build()).await;
    complete(&cluster, "web").await;
    edit(&cluster, "web", |deployment| {
        deployment.spec.paused = Some(true);
        set_image("example.com/app:2")(deployment);
    })
    .await;
    cluster
        .until("a pause", |cluster| {
            reason(cluster, "web", "Progressing") == "DeploymentPaused"
        })
        .await;
    edit(&cluster, "web", |deployment| deployment.spec.replicas = Some(4)).await;
    cluster
        .until("four pods", |cluster| {
            status(cluster, "web").available_replicas == Some(4)
        })
        .await;
    assert_eq!(sets_of(&cluster).len(), 1);
    edit(&cluster, "web", |deployment| deployment.spec.paused = Some(false)).await;
    cluster
        .until("two sets", |cluster| sets_of(cluster).len() == 2)
        .await;
    complete(&cluster, "web").await;
}

#[tokio::test]
async fn recreate_never_runs_two_templates_at_once() {
    let (cluster, _components) = cluster().await;
    create(&cluster, deployment("web").replicas(3).recreate().build()).await;
    complete(&cluster, "web").await;
    let old = sets_of(&cluster).remove(0).metadata.uid;
    edit(&cluster, "web", set_image("example.com/app:2")).await;
    cluster
        .until("a rollout", |cluster| {
            let pods: Vec<Pod> = cluster.list();
            let of_old =
                |pod: &&Pod| Some(&pod.metadata.owner_references.as_ref().unwrap()[0].uid) == old.as_ref();
            let olds = pods.iter().filter(of_old).count();
            assert!(olds == 0 || olds == pods.len(), "pods of two templates");
            let status = status(cluster, "web");
            sets_of(cluster).len() == 2
                && status.updated_replicas == Some(3)
                && status.available_replicas == Some(3)
        })
        .await;
}

#[tokio::test]
async fn without_progress_the_deadline_is_reported() {
    let (cluster, _components) = Cluster::with([DEPLOYMENTS, SETS]).await;
    create(
        &cluster,
        deployment("web").replicas(2).progress_deadline(30).build(),
    )
    .await;
    let start = cluster.clock.now();
    cluster
        .until("the deadline", |cluster| {
            reason(cluster, "web", "Progressing") == "ProgressDeadlineExceeded"
        })
        .await;
    let waited = cluster.clock.now().duration_since(start).as_secs();
    assert!(
        (30..60).contains(&waited),
        "it was reported after {waited} seconds"
    );
}

#[tokio::test]
async fn no_more_old_sets_are_kept_than_the_history_limit() {
    let (cluster, _components) = cluster().await;
    create(&cluster, deployment("web").replicas(1).history_limit(1).build()).await;
    for image in ["example.com/app:2", "example.com/app:3", "example.com/app:4"] {
        complete(&cluster, "web").await;
        edit(&cluster, "web", set_image(image)).await;
    }
    complete(&cluster, "web").await;
    cluster
        .until("two sets", |cluster| sets_of(cluster).len() == 2)
        .await;
}

#[tokio::test]
async fn a_name_collision_is_avoided() {
    let (cluster, _components) = Cluster::with([]).await;
    let web = deployment("web").replicas(1).build();
    create(&cluster, web).await;
    cluster.settle().await;
    let stored: Deployment = cluster.find("web").unwrap();
    let mut taken = sets::new_set(&stored, plan::bounds(&stored), 0, 1);
    let spec = taken.spec.template.as_mut().unwrap().spec.as_mut().unwrap();
    spec.containers[0].image = Some("example.com/other".to_owned());
    let sets = cluster.client("test").namespaced::<ReplicaSet>("default");
    sets.create(&taken).await.unwrap();
    let _component = cluster.run(DEPLOYMENTS);
    cluster
        .until("another set", |cluster| sets_of(cluster).len() == 2)
        .await;
    assert_eq!(status(&cluster, "web").collision_count, Some(1));
}

#[tokio::test]
async fn a_set_that_cannot_create_pods_fails_the_deployment() {
    let (cluster, _components) = Cluster::with([DEPLOYMENTS, SETS]).await;
    cluster.interceptor.reject(|call| {
        let rejected = call.verb == "create" && call.resource == "pods";
        rejected.then(|| Status::internal("no room"))
    });
    create(&cluster, deployment("web").replicas(1).build()).await;
    cluster
        .until("the trouble", |cluster| {
            reason(cluster, "web", "ReplicaFailure") == "FailedCreate"
        })
        .await;
}

/// CL5
#[tokio::test]
async fn cl5_further_reconciles_of_a_settled_deployment_write_nothing() {
    let (cluster, _components) = cluster().await;
    create(&cluster, deployment("web").replicas(3).build()).await;
    complete(&cluster, "web").await;
    edit(&cluster, "web", set_image("example.com/app:2")).await;
    cluster.settle().await;
    complete(&cluster, "web").await;
    cluster.advance(Duration::from_secs(1)).await;
    cluster.settle().await;
    cluster.interceptor.clear();
    let context = cluster.context(NAME);
    let deployments = Deployments::new(&context).unwrap();
    for _ in 0..20 {
        deployments
            .reconcile(&Key::new("default", "web"), &context.client)
            .await
            .unwrap();
    }
    assert_eq!(cluster.interceptor.writes(), Vec::<String>::new());
}

/// RS7, for sets instead of pods.
#[tokio::test]
async fn rs7_a_stale_cache_never_creates_a_set_too_many() {
    let cluster = Cluster::start().await;
    let lagging_caches = cluster.lagging_caches();
    let _component = cluster.run_with_caches(lagging_caches.clone(), DEPLOYMENTS);
    lagging_caches.pause::<ReplicaSet>();
    create(&cluster, deployment("web").replicas(2).build()).await;
    cluster
        .until("a set", |cluster| !sets_of(cluster).is_empty())
        .await;
    for n in 0..100 {
        edit(&cluster, "web", |deployment| {
            let labels = deployment.metadata.labels.get_or_insert_default();
            labels.insert("touched".to_owned(), n.to_string());
        })
        .await;
    }
    cluster.advance(Duration::from_secs(60)).await;
    lagging_caches.resume::<ReplicaSet>();
    cluster.settle().await;
    assert_eq!(sets_of(&cluster).len(), 1);
    assert_eq!(status(&cluster, "web").collision_count, None);
}

#[tokio::test]
async fn every_action_is_recorded_as_an_event() {
    let (cluster, _components) = Cluster::with([DEPLOYMENTS, SETS]).await;
    create(&cluster, deployment("web").replicas(2).build()).await;
    cluster
        .until("a set", |cluster| !sets_of(cluster).is_empty())
        .await;
    let name = sets_of(&cluster).remove(0).metadata.name.unwrap();
    edit(&cluster, "web", |deployment| deployment.spec.replicas = Some(5)).await;
    let expected = [
        format!("Scaled up replica set {name} from 0 to 2"),
        format!("Scaled up replica set {name} from 2 to 5"),
    ];
    cluster
        .until("both events", |cluster| {
            let events: Vec<Event> = cluster.list();
            let is_recorded =
                |message: &String| events.iter().any(|event| event.message.as_ref() == Some(message));
            expected.iter().all(is_recorded)
        })
        .await;
}
