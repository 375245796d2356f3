//! A ReplicaSet controller as a remote client: expectations, slow starts, failures and crashes over HTTPS.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use setpoint_api::{Change, Clock, Key, ResourceVersion, Status};
use setpoint_client::{Object, Patch, discovery};
use setpoint_runtime::expectations::Expectations;
use setpoint_runtime::factory::{HandlerOptions, SharedInformerFactory};
use setpoint_runtime::informer::Event;
use setpoint_runtime::metrics::Metrics;
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::{Client, Lister, Manager, for_};
use setpoint_testkit::{Component, Crash, CrashPoint, RunningComponent, pod, replica_set};

use crate::remote::{RemoteCluster, until};
use crate::{clock, in_time};

const CREATES: &str = "remote create pods";
const DELETES: &str = "remote delete pods";
const SETS: Component = Component::Controller("replicaset");

impl RemoteCluster {
    /// The manager of a separate process.
    async fn manager(&self, clock: Arc<dyn Clock>) -> Manager {
        let found = discovery::discover(&self.http).await.unwrap();
        let watchable = found.into_iter().filter(|resource| resource.is_watchable());
        let client = self.client.clone();
        let factory = SharedInformerFactory::new(client.clone(), clock.clone())
            .with_resources(watchable.map(|one| one.gvr));
        Manager::with_factory(factory, client, clock)
    }

    /// The controller as a separate process, on the real clock.
    async fn control(&self) -> RunningComponent {
        self.cluster.run_in(self.manager(clock()).await, SETS)
    }

    async fn scale(&self, replicas: i32) {
        let sets = self.cluster.client("test").namespaced::<ReplicaSet>("default");
        sets.scale_to("web", replicas).await.unwrap();
    }

    /// An annotation change, which only enqueues the set.
    async fn touch<T: Object>(&self, name: &str, number: usize) -> ResourceVersion {
        let objects = self.cluster.client("test").namespaced::<T>("default");
        let patch = Patch::merge(&json!({"metadata": {"annotations": {"touched": number.to_string()}}}));
        let touched = objects.patch(name, &patch.unwrap()).await.unwrap();
        touched.resource_version()
    }

    fn pods(&self) -> Vec<Pod> {
        let pods = self.cluster.list::<Pod>();
        let is_active = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
        pods.into_iter().filter(is_active).collect()
    }

    /// Waits until there are so many pods and the status has that number.
    async fn settled_at(&self, replicas: usize) {
        let is_reported = || {
            let Some(web) = self.cluster.find::<ReplicaSet>("web") else {
                return false;
            };
            let generation = web.metadata.generation;
            let status = web.status.unwrap_or_default();
            status.replicas == replicas as i32 && status.observed_generation == generation
        };
        until(|| self.pods().len() == replicas && is_reported()).await;
    }
}

async fn web(remote: &RemoteCluster, replicas: i32) {
    let sets = remote.cluster.client("test").namespaced("default");
    sets.create(&replica_set("web").replicas(replicas).build())
        .await
        .unwrap();
}

/// CL1, CL4, CL6, RS7, RS10, RS11: pods are created with an owner reference and deleted, never one too many, and the status reflects
/// the spec.
#[tokio::test]
async fn rs10_a_set_controlled_over_https_converges_to_every_replica_count() {
    let remote = RemoteCluster::open().await;
    let _running = remote.control().await;
    web(&remote, 5).await;
    remote.settled_at(5).await;
    assert_eq!(remote.link.count(CREATES), 5);
    let owner: ReplicaSet = remote.cluster.find("web").unwrap();
    for pod in remote.pods() {
        let owners = pod.meta().owner_references.clone().unwrap();
        assert_eq!(owners.len(), 1);
        assert_eq!(Some(&owners[0].uid), owner.metadata.uid.as_ref());
        assert_eq!(
            (owners[0].controller, owners[0].block_owner_deletion),
            (Some(true), Some(true))
        );
    }
    remote.scale(2).await;
    remote.settled_at(2).await;
    assert_eq!(remote.link.count(DELETES), 3);
    remote.scale(4).await;
    remote.settled_at(4).await;
    assert_eq!((remote.link.count(CREATES), remote.link.count(DELETES)), (7, 3));
}

/// RS8, RS9: if every create is rejected, a sync sends one; it is retried with backoff, not after five minutes.
#[tokio::test]
async fn rs8_a_rejecting_server_over_https_gets_one_request_per_sync() {
    let remote = RemoteCluster::open().await;
    remote.link.reject(|call| {
        (call.verb == "create" && call.resource == "pods").then(|| {
            Status::forbidden(
                &Pod::resource().group_resource(),
                &call.name,
                "exceeded quota: pods",
            )
        })
    });
    let _running = remote.control().await;
    web(&remote, 50).await;
    until(|| remote.link.count(CREATES) > 0).await;
    let requests = remote.link.count(CREATES);
    assert!(requests < 20, "all fifty were tried at once: {requests}");
    remote.link.allow_all();
    remote.settled_at(50).await;
}

/// RS12: a rejected deletion stops no other and is retried.
#[tokio::test]
async fn rs12_a_rejected_deletion_over_https_stops_no_other() {
    let remote = RemoteCluster::open().await;
    let _running = remote.control().await;
    web(&remote, 4).await;
    remote.settled_at(4).await;
    let spared = remote.pods()[0].metadata.name.clone().unwrap();
    let name = spared.clone();
    remote.link.reject(move |call| {
        (call.verb == "delete" && call.name == name).then(|| Status::internal("not this one"))
    });
    remote.scale(0).await;
    until(|| remote.pods().len() == 1).await;
    assert_eq!(remote.pods()[0].metadata.name.as_ref(), Some(&spared));
    remote.link.allow_all();
    remote.settled_at(0).await;
}

/// OC9: however much was done when the process crashed, its successor completes it and repeats nothing.
#[tokio::test]
async fn oc9_a_crash_of_a_remote_controller_is_recovered() {
    for point in [CrashPoint::Before, CrashPoint::After] {
        let remote = RemoteCluster::open().await;
        web(&remote, 3).await;
        remote.link.crash(Crash {
            user: "remote",
            request: 4,
            point,
        });
        let running = remote.control().await;
        until(|| remote.link.has_crashed()).await;
        drop(running);
        remote.link.clear_crash();
        let _running = remote.control().await;
        remote.settled_at(3).await;
        assert_eq!(remote.cluster.list::<Pod>().len(), 3, "{point:?}");
    }
}

/// The number of successful reconciles of a controller.
fn reconciles(metrics: &Metrics, controller: &str) -> usize {
    let line =
        format!("setpoint_controller_reconciles_total{{controller=\"{controller}\",result=\"success\"}} ");
    let text = metrics.to_text();
    let count = text.lines().find_map(|own| own.strip_prefix(&line));
    count.map_or(0, |count| count.parse().unwrap())
}

/// CL5: a converged set is reconciled for every annotation change and by every new process, without a write.
#[tokio::test]
async fn cl5_further_reconciles_of_a_converged_set_over_https_write_nothing() {
    let remote = RemoteCluster::open().await;
    web(&remote, 3).await;
    let manager = remote.manager(clock()).await;
    let metrics = manager.context().metrics.clone();
    let running = remote.cluster.run_in(manager, SETS);
    remote.settled_at(3).await;
    remote.link.clear();
    let pod = remote.pods()[0].metadata.name.clone().unwrap();
    for number in 0..20 {
        let before = reconciles(&metrics, "replicaset-controller");
        match number % 2 {
            0 => remote.touch::<ReplicaSet>("web", number).await,
            _ => remote.touch::<Pod>(&pod, number).await,
        };
        until(|| reconciles(&metrics, "replicaset-controller") > before).await;
    }
    running.stop().await;
    let versions = || {
        (
            remote.cluster.versions::<ReplicaSet>(),
            remote.cluster.versions::<Pod>(),
        )
    };
    let before = versions();
    for _ in 0..5 {
        let manager = remote.manager(clock()).await;
        let metrics = manager.context().metrics.clone();
        let running = remote.cluster.run_in(manager, SETS);
        until(|| reconciles(&metrics, "replicaset-controller") > 0).await;
        running.stop().await;
    }
    assert_eq!(remote.link.writes(), [""; 0]);
    assert_eq!(versions(), before);
}

/// How often a set is annotated while the watch of pods is frozen.
const SYNCS: usize = 100;

/// RS7, RS11: while the watch of pods is frozen, a hundred reconciles create no pod too many and none too few.
#[tokio::test]
async fn rs7_a_frozen_watch_over_https_never_makes_a_pod_too_many() {
    let remote = RemoteCluster::open().await;
    let time = Arc::new(remote.cluster.clock.clone());
    let manager = remote.manager(time.clone()).await;
    let context = manager.context().clone();
    let sets = context.cache_of(&ReplicaSet::resource()).unwrap();
    let pods = context.cache_of(&Pod::resource()).unwrap();
    let _running = remote.cluster.run_in(manager, SETS);
    in_time(pods.synced()).await;
    web(&remote, 0).await;
    remote.settled_at(0).await;
    for replicas in [5, 2] {
        remote.watches.freeze::<Pod>();
        remote.scale(replicas).await;
        until(|| remote.pods().len() == replicas as usize).await;
        for number in 0..SYNCS {
            let version = remote.touch::<ReplicaSet>("web", number).await;
            in_time(sets.reached(version)).await;
            time.set(time.now().saturating_add(Duration::from_secs(2)).unwrap());
            assert_eq!(remote.pods().len(), replicas as usize);
        }
        remote.watches.mend::<Pod>();
        remote.settled_at(replicas as usize).await;
    }
    assert_eq!((remote.link.count(CREATES), remote.link.count(DELETES)), (5, 3));
    let held = "setpoint_controller_held_total{controller=\"replicaset-controller\"} 0";
    assert!(!context.metrics.to_text().contains(held));
}

/// Keeps so many pods by expectations alone: its keys are not held, as it does not declare that it reads pods.
struct ExpectingReconciler {
    wanted: usize,
    pods: Lister<Pod>,
    expectations: Expectations,
}

impl Reconcile for ExpectingReconciler {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let missing = self
            .wanted
            .saturating_sub(self.pods.in_namespace("default").len());
        if missing == 0 || !self.expectations.are_satisfied(key) {
            return Ok(Next::Done);
        }
        self.expectations.expect_creations(key, missing as u64);
        let pods = client.namespaced::<Pod>("default");
        for number in 0..missing {
            let mut pod = pod(&format!("web-{number}")).build();
            pod.metadata.generate_name = pod.metadata.name.take();
            pods.create(&pod).await?;
        }
        Ok(Next::Done)
    }
}

/// RS7: expectations alone are enough: a hundred syncs on a stale cache create no pod.
#[tokio::test]
async fn rs7_expectations_hold_over_https_however_often_a_stale_cache_is_read() {
    let remote = RemoteCluster::open().await;
    let factory = SharedInformerFactory::new(remote.client.clone(), clock());
    let (expectations, web_key) = (Expectations::new(clock()), Key::new("default", "web"));
    let (observed, key) = (expectations.clone(), web_key.clone());
    let observed = move |event: Event<'_>| {
        if let Event::Changed(Change::Added(_)) = event {
            observed.creation_observed(&key);
        }
    };
    let _registration = factory
        .informer_for::<Pod>()
        .add_handler(HandlerOptions::default(), observed)
        .unwrap();
    let expecting = ExpectingReconciler {
        wanted: 4,
        pods: factory.lister(),
        expectations: expectations.clone(),
    };
    let cache = factory.informer_for::<Pod>().cache().clone();
    let mut manager = Manager::with_factory(factory, remote.client.clone(), clock());
    manager.add_controller(for_::<ReplicaSet>().named("expecting").reconciles_with(expecting));
    let metrics = manager.context().metrics.clone();
    let _running = RunningComponent::of(manager);
    in_time(cache.synced()).await;
    remote.watches.freeze::<Pod>();
    web(&remote, 4).await;
    until(|| reconciles(&metrics, "expecting") > 0).await;
    for number in 0..SYNCS {
        let before = reconciles(&metrics, "expecting");
        remote.touch::<ReplicaSet>("web", number).await;
        until(|| reconciles(&metrics, "expecting") > before).await;
    }
    assert_eq!(expectations.pending(&web_key), (4, 0));
    remote.watches.mend::<Pod>();
    until(|| expectations.are_satisfied(&web_key)).await;
    let before = reconciles(&metrics, "expecting");
    remote.touch::<ReplicaSet>("web", SYNCS).await;
    until(|| reconciles(&metrics, "expecting") > before).await;
    assert_eq!((remote.pods().len(), remote.link.count(CREATES)), (4, 4));
}
