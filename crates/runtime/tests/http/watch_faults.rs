//! Late, reordered and lost watch events over HTTPS: a level-triggered controller still converges.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Clock, SystemClock, User};
use setpoint_client::{Http, Object};
use setpoint_runtime::{Client, Manager, SharedInformerFactory};
use setpoint_testkit::{Cluster, Component, SteppedClock, WatchFaults, replica_set};
use tokio::task::JoinSet;

use crate::LIMIT;

/// The number of runs, and how many run concurrently.
const SEEDS: u64 = 24;
const AT_ONCE: usize = 8;
const SETS: [&str; 3] = ["a", "b", "c"];
/// The clock advances by this in each millisecond.
const STEP: Duration = Duration::from_millis(500);
const POLL_PERIOD: Duration = Duration::from_secs(5);
/// The time after which the state is checked again, when the last late event has arrived and its effects are corrected.
const STABLE_FOR: Duration = Duration::from_secs(60);

/// Advances the clock, hundreds of times faster than real time.
async fn let_time_pass(clock: SteppedClock) {
    loop {
        SystemClock::new().sleep(Duration::from_millis(1)).await;
        let next = clock.now().saturating_add(STEP).unwrap();
        clock.set(next);
    }
}

/// The number of non-terminating pods of each set, and its status.replicas if the status is for the newest
/// spec.
fn state(cluster: &Cluster) -> BTreeMap<String, (i32, Option<i32>)> {
    let mut state = BTreeMap::new();
    for set in cluster.list::<ReplicaSet>() {
        let status = set.status.unwrap_or_default();
        let is_current = status.observed_generation == set.metadata.generation;
        let reported = is_current.then_some(status.replicas);
        state.insert(set.metadata.name.unwrap(), (0, reported));
    }
    for pod in cluster.list::<Pod>() {
        let owner = pod.metadata.owner_references.unwrap_or_default().remove(0);
        if pod.metadata.deletion_timestamp.is_none() {
            state.get_mut(&owner.name).unwrap().0 += 1;
        }
    }
    state
}

/// One run.
struct Run {
    cluster: Cluster,
    disorder: Arc<WatchFaults>,
}

impl Run {
    /// Waits until the condition is true, polling rarely to leave time for other runs.
    async fn until(&self, condition: impl Fn(&Cluster) -> bool) {
        let waiting = async {
            while !condition(&self.cluster) {
                self.cluster.clock.sleep(POLL_PERIOD).await;
            }
        };
        let in_time = tokio::time::timeout(LIMIT, waiting).await;
        assert!(in_time.is_ok(), "{:?}: {:?}", state(&self.cluster), self.disorder);
    }

    async fn converged(&self, replicas: [i32; 3]) {
        let expected: BTreeMap<_, _> = SETS
            .into_iter()
            .zip(replicas)
            .map(|(name, replicas)| (name.to_owned(), (replicas, Some(replicas))))
            .collect();
        self.until(|cluster| state(cluster) == expected).await;
        self.cluster.clock.sleep(STABLE_FOR).await;
        self.until(|cluster| state(cluster) == expected).await;
    }
}

/// Sets are created and scaled and lose pods while the controller's watches are faulty. Returns the number of each fault.
async fn run(seed: u64) -> [usize; 4] {
    let cluster = Cluster::start().await;
    let served = cluster.serve_https().await;
    let mut passing = JoinSet::new();
    passing.spawn(let_time_pass(cluster.clock.clone()));
    let http = Http::with_clock(&served.connection(), Arc::new(cluster.clock.clone())).unwrap();
    let disorder = WatchFaults::new(Arc::new(http), cluster.clock.clone(), Some(seed));
    let disorder = Arc::new(disorder);
    let time: Arc<dyn Clock> = Arc::new(cluster.clock.clone());
    let remote = Client::new(disorder.clone(), Arc::new(User::component("remote")));
    let factory = SharedInformerFactory::new(remote.clone(), time.clone())
        .with_resources([ReplicaSet::resource(), Pod::resource()]);
    let manager = Manager::with_factory(factory, remote, time);
    let _part = cluster.run_in(manager, Component::Controller("replicaset"));
    let client = cluster.client("test");
    let (sets, pods) = (
        client.namespaced::<ReplicaSet>("default"),
        client.namespaced::<Pod>("default"),
    );
    for name in SETS {
        sets.create(&replica_set(name).replicas(3).build()).await.unwrap();
    }
    let run = Run {
        cluster,
        disorder: disorder.clone(),
    };
    run.until(|cluster| cluster.list::<Pod>().len() >= 4).await;
    // Some pods are deleted before the controller can have observed all creations.
    for pod in run.cluster.list::<Pod>().into_iter().step_by(2) {
        let name = pod.metadata.name.unwrap();
        let _ = pods.delete(&name, DeleteOptions::default()).await;
    }
    sets.scale_to("b", 5).await.unwrap();
    run.converged([3, 5, 3]).await;
    for (name, replicas) in SETS.into_iter().zip([4, 1, 0]) {
        sets.scale_to(name, replicas).await.unwrap();
    }
    run.converged([4, 1, 0]).await;
    let harm = disorder.counts();
    [&harm.late, &harm.swapped, &harm.lost, &harm.broken].map(|count| count.load(Ordering::Relaxed))
}

/// TR9, TR3: whatever happens to the watch events of pods and sets, the controller converges.
#[tokio::test]
async fn tr9_reordered_late_or_lost_events_over_https_converge() {
    let mut seeds = 0..SEEDS;
    let mut runs: JoinSet<_> = seeds.by_ref().take(AT_ONCE).map(run).collect();
    let mut total = [0; 4];
    while let Some(harm) = runs.join_next().await {
        for (total, harm) in total.iter_mut().zip(harm.unwrap()) {
            *total += harm;
        }
        if let Some(seed) = seeds.next() {
            runs.spawn(run(seed));
        }
    }
    assert!(
        total.iter().all(|count| *count > 0),
        "late, swapped, lost, broken: {total:?}"
    );
}
