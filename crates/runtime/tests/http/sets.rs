//! A ReplicaSet controller at the other end of a line: expectations, slow starts, failures and crashes over HTTPS.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use setpoint_api::{Change, Clock, Key, ResourceVersion, Status};
use setpoint_client::{Object, Patch, discovery};
use setpoint_runtime::expectations::Expectations;
use setpoint_runtime::factory::{Factory, Wishes};
use setpoint_runtime::informer::Notice;
use setpoint_runtime::metrics::Metrics;
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::{Client, Lister, Manager, for_};
use setpoint_testkit::{Crash, Moment, Part, RunningPart, pod, set};

use crate::far::{Far, until};
use crate::{clock, in_time};

const CREATES: &str = "far create pods";
const DELETES: &str = "far delete pods";
const SETS: Part = Part::Controller("replicaset");

impl Far {
    /// The manager of a process of its own.
    async fn manager(&self, clock: Arc<dyn Clock>) -> Manager {
        let found = discovery::discover(&self.http).await.unwrap();
        let watchable = found.into_iter().filter(|resource| resource.is_watchable());
        let client = self.client.clone();
        let factory = Factory::new(client.clone(), clock.clone()).knowing(watchable.map(|one| one.gvr));
        Manager::mirroring(factory, client, clock)
    }

    /// The controller as a process of its own, which lives by real time.
    async fn control(&self) -> RunningPart {
        self.cluster.run_by(self.manager(clock()).await, SETS)
    }

    async fn scale(&self, replicas: i32) {
        let sets = self.cluster.client("test").namespaced::<ReplicaSet>("default");
        sets.scale_to("web", replicas).await.unwrap();
    }

    /// A change that means nothing, and wakes whoever looks after the object.
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

    /// Waits until there are so many pods and the set says so.
    async fn settled_at(&self, replicas: usize) {
        let is_told = || {
            let Some(web) = self.cluster.find::<ReplicaSet>("web") else {
                return false;
            };
            let generation = web.metadata.generation;
            let status = web.status.unwrap_or_default();
            status.replicas == replicas as i32 && status.observed_generation == generation
        };
        until(|| self.pods().len() == replicas && is_told()).await;
    }
}

async fn web(far: &Far, replicas: i32) {
    let sets = far.cluster.client("test").namespaced("default");
    sets.create(&set("web").replicas(replicas).build()).await.unwrap();
}

/// CL1, CL4, CL6, RS7, RS10, RS11: pods come with their reference and go again, never one too many, and the status answers
/// the spec.
#[tokio::test]
async fn rs10_a_set_controlled_over_https_settles_at_every_number() {
    let far = Far::open().await;
    let _running = far.control().await;
    web(&far, 5).await;
    far.settled_at(5).await;
    assert_eq!(far.link.count(CREATES), 5);
    let owner: ReplicaSet = far.cluster.find("web").unwrap();
    for pod in far.pods() {
        let owners = pod.meta().owner_references.clone().unwrap();
        assert_eq!(owners.len(), 1);
        assert_eq!(Some(&owners[0].uid), owner.metadata.uid.as_ref());
        assert_eq!(
            (owners[0].controller, owners[0].block_owner_deletion),
            (Some(true), Some(true))
        );
    }
    far.scale(2).await;
    far.settled_at(2).await;
    assert_eq!(far.link.count(DELETES), 3);
    far.scale(4).await;
    far.settled_at(4).await;
    assert_eq!((far.link.count(CREATES), far.link.count(DELETES)), (7, 3));
}

/// RS8, RS9: where every create is refused, a sync asks once; and it is tried again by backoff, not after five minutes.
#[tokio::test]
async fn rs8_a_server_over_https_that_refuses_is_asked_once_in_a_sync() {
    let far = Far::open().await;
    far.link.refuse(|call| {
        (call.verb == "create" && call.resource == "pods").then(|| {
            Status::forbidden(
                &Pod::resource().group_resource(),
                &call.name,
                "exceeded quota: pods",
            )
        })
    });
    let _running = far.control().await;
    web(&far, 50).await;
    until(|| far.link.count(CREATES) > 0).await;
    let asked = far.link.count(CREATES);
    assert!(asked < 20, "all fifty were tried at once: {asked}");
    far.link.allow_all();
    far.settled_at(50).await;
}

/// RS12: a deletion that is refused stops no other and is tried again.
#[tokio::test]
async fn rs12_a_deletion_refused_over_https_stops_no_other() {
    let far = Far::open().await;
    let _running = far.control().await;
    web(&far, 4).await;
    far.settled_at(4).await;
    let spared = far.pods()[0].metadata.name.clone().unwrap();
    let name = spared.clone();
    far.link.refuse(move |call| {
        (call.verb == "delete" && call.name == name).then(|| Status::internal("not this one"))
    });
    far.scale(0).await;
    until(|| far.pods().len() == 1).await;
    assert_eq!(far.pods()[0].metadata.name.as_ref(), Some(&spared));
    far.link.allow_all();
    far.settled_at(0).await;
}

/// OC9: whatever of the work was done when the process died, its successor makes it whole and does nothing twice.
#[tokio::test]
async fn oc9_a_crash_at_the_other_end_of_a_line_is_made_good() {
    for moment in [Moment::Before, Moment::After] {
        let far = Far::open().await;
        web(&far, 3).await;
        far.link.crash(Crash {
            user: "far",
            at: 4,
            moment,
        });
        let running = far.control().await;
        until(|| far.link.has_crashed()).await;
        drop(running);
        far.link.mend();
        let _running = far.control().await;
        far.settled_at(3).await;
        assert_eq!(far.cluster.list::<Pod>().len(), 3, "{moment:?}");
    }
}

/// How often a controller has reconciled and come to a good end.
fn reconciles(metrics: &Metrics, controller: &str) -> usize {
    let line =
        format!("setpoint_controller_reconciles_total{{controller=\"{controller}\",result=\"success\"}} ");
    let text = metrics.to_text();
    let count = text.lines().find_map(|own| own.strip_prefix(&line));
    count.map_or(0, |count| count.parse().unwrap())
}

/// CL5: what has converged is looked at again for every touch and by every process that starts, and nobody writes.
#[tokio::test]
async fn cl5_further_looks_at_a_settled_set_over_https_write_nothing() {
    let far = Far::open().await;
    web(&far, 3).await;
    let manager = far.manager(clock()).await;
    let metrics = manager.context().metrics.clone();
    let running = far.cluster.run_by(manager, SETS);
    far.settled_at(3).await;
    far.link.clear();
    let pod = far.pods()[0].metadata.name.clone().unwrap();
    for number in 0..20 {
        let before = reconciles(&metrics, "replicaset-controller");
        match number % 2 {
            0 => far.touch::<ReplicaSet>("web", number).await,
            _ => far.touch::<Pod>(&pod, number).await,
        };
        until(|| reconciles(&metrics, "replicaset-controller") > before).await;
    }
    running.stop().await;
    let versions = || {
        (
            far.cluster.versions::<ReplicaSet>(),
            far.cluster.versions::<Pod>(),
        )
    };
    let before = versions();
    for _ in 0..5 {
        let manager = far.manager(clock()).await;
        let metrics = manager.context().metrics.clone();
        let running = far.cluster.run_by(manager, SETS);
        until(|| reconciles(&metrics, "replicaset-controller") > 0).await;
        running.stop().await;
    }
    assert_eq!(far.link.writes(), [""; 0]);
    assert_eq!(versions(), before);
}

/// So often a set is touched whose pods are out of sight.
const SYNCS: usize = 100;

/// RS7, RS11: while the watch of pods stands still, a hundred wake-ups make no pod too many and none too few.
#[tokio::test]
async fn rs7_a_frozen_watch_over_https_never_makes_a_pod_too_many() {
    let far = Far::open().await;
    let time = Arc::new(far.cluster.clock.clone());
    let manager = far.manager(time.clone()).await;
    let context = manager.context().clone();
    let sets = context.cache_of(&ReplicaSet::resource()).unwrap();
    let pods = context.cache_of(&Pod::resource()).unwrap();
    let _running = far.cluster.run_by(manager, SETS);
    in_time(pods.synced()).await;
    web(&far, 0).await;
    far.settled_at(0).await;
    for replicas in [5, 2] {
        far.line.freeze::<Pod>();
        far.scale(replicas).await;
        until(|| far.pods().len() == replicas as usize).await;
        for number in 0..SYNCS {
            let version = far.touch::<ReplicaSet>("web", number).await;
            in_time(sets.reached(version)).await;
            time.set(time.now().saturating_add(Duration::from_secs(2)).unwrap());
            assert_eq!(far.pods().len(), replicas as usize);
        }
        far.line.mend::<Pod>();
        far.settled_at(replicas as usize).await;
    }
    assert_eq!((far.link.count(CREATES), far.link.count(DELETES)), (5, 3));
    let held = "setpoint_controller_held_total{controller=\"replicaset-controller\"} 0";
    assert!(!context.metrics.to_text().contains(held));
}

/// Keeps so many pods, and goes by expectations alone: nobody holds its keys, as it does not say that it reads pods.
struct Expecting {
    wanted: usize,
    pods: Lister<Pod>,
    client: Client,
    expectations: Expectations,
}

impl Reconcile for Expecting {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let missing = self
            .wanted
            .saturating_sub(self.pods.in_namespace("default").len());
        if missing == 0 || !self.expectations.are_satisfied(key) {
            return Ok(Next::Done);
        }
        self.expectations.expect_creations(key, missing as u64);
        let pods = self.client.namespaced::<Pod>("default");
        for number in 0..missing {
            let mut pod = pod(&format!("web-{number}")).build();
            pod.metadata.generate_name = pod.metadata.name.take();
            pods.create(&pod).await?;
        }
        Ok(Next::Done)
    }
}

/// RS7: expectations alone do as much: a hundred syncs that see no pod make none.
#[tokio::test]
async fn rs7_expectations_hold_over_https_however_often_a_stale_cache_is_read() {
    let far = Far::open().await;
    let factory = Factory::new(far.client.clone(), clock());
    let (expectations, web_key) = (Expectations::new(clock()), Key::new("default", "web"));
    let (observed, key) = (expectations.clone(), web_key.clone());
    let told = move |notice: Notice<'_>| {
        if let Notice::Changed(Change::Added(_)) = notice {
            observed.creation_observed(&key);
        }
    };
    let _place = factory.of::<Pod>().add_handler(Wishes::default(), told).unwrap();
    let expecting = Expecting {
        wanted: 4,
        pods: factory.lister(),
        client: far.client.clone(),
        expectations: expectations.clone(),
    };
    let cache = factory.of::<Pod>().cache().clone();
    let mut manager = Manager::mirroring(factory, far.client.clone(), clock());
    manager.control(for_::<ReplicaSet>().named("expecting").reconciles_with(expecting));
    let metrics = manager.context().metrics.clone();
    let _running = RunningPart::of(manager);
    in_time(cache.synced()).await;
    far.line.freeze::<Pod>();
    web(&far, 4).await;
    until(|| reconciles(&metrics, "expecting") > 0).await;
    for number in 0..SYNCS {
        let before = reconciles(&metrics, "expecting");
        far.touch::<ReplicaSet>("web", number).await;
        until(|| reconciles(&metrics, "expecting") > before).await;
    }
    assert_eq!(expectations.pending(&web_key), (4, 0));
    far.line.mend::<Pod>();
    until(|| expectations.are_satisfied(&web_key)).await;
    let before = reconciles(&metrics, "expecting");
    far.touch::<ReplicaSet>("web", SYNCS).await;
    until(|| reconciles(&metrics, "expecting") > before).await;
    assert_eq!((far.pods().len(), far.link.count(CREATES)), (4, 4));
}
