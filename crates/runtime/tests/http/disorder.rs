//! Events that come late, in another order or not at all over HTTPS: a controller that goes by what is there ends right.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Clock, SystemClock, User};
use setpoint_client::{Http, Object};
use setpoint_runtime::{Client, Factory, Manager};
use setpoint_testkit::{Cluster, Disorder, Part, SteppedClock, set};
use tokio::task::JoinSet;

use crate::LIMIT;

/// So many runs, so many of them at a time.
const SEEDS: u64 = 24;
const AT_ONCE: usize = 8;
const SETS: [&str; 3] = ["a", "b", "c"];
/// So much passes in each millisecond.
const STEP: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_secs(5);
/// So much later it is looked at again, when the last late event has come and what it led to is put right.
const LASTING: Duration = Duration::from_secs(60);

/// Time runs, hundreds of times as fast as elsewhere.
async fn let_time_pass(clock: SteppedClock) {
    loop {
        SystemClock::new().sleep(Duration::from_millis(1)).await;
        let next = clock.now().saturating_add(STEP).unwrap();
        clock.set(next);
    }
}

/// How many pods each set has that are not on their way out, and how many each set says it has, if it speaks of its newest
/// spec.
fn state(cluster: &Cluster) -> BTreeMap<String, (i32, Option<i32>)> {
    let mut state = BTreeMap::new();
    for set in cluster.list::<ReplicaSet>() {
        let status = set.status.unwrap_or_default();
        let is_answered = status.observed_generation == set.metadata.generation;
        let said = is_answered.then_some(status.replicas);
        state.insert(set.metadata.name.unwrap(), (0, said));
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
    disorder: Arc<Disorder>,
}

impl Run {
    /// Waits until it is so, and looks again every now and then: others need the machine, too.
    async fn until(&self, is_so: impl Fn(&Cluster) -> bool) {
        let waiting = async {
            while !is_so(&self.cluster) {
                self.cluster.clock.sleep(LOOK).await;
            }
        };
        let in_time = tokio::time::timeout(LIMIT, waiting).await;
        assert!(in_time.is_ok(), "{:?}: {:?}", state(&self.cluster), self.disorder);
    }

    async fn settled(&self, replicas: [i32; 3]) {
        let expected: BTreeMap<_, _> = SETS
            .into_iter()
            .zip(replicas)
            .map(|(name, replicas)| (name.to_owned(), (replicas, Some(replicas))))
            .collect();
        self.until(|cluster| state(cluster) == expected).await;
        self.cluster.clock.sleep(LASTING).await;
        self.until(|cluster| state(cluster) == expected).await;
    }
}

/// Sets come, are scaled and lose pods, all at once, while the controller hears of it by a bad line. What went wrong.
async fn run(seed: u64) -> [usize; 4] {
    let cluster = Cluster::start().await;
    let served = cluster.serve_https().await;
    let mut passing = JoinSet::new();
    passing.spawn(let_time_pass(cluster.clock.clone()));
    let http = Http::with_clock(&served.connection(), Arc::new(cluster.clock.clone())).unwrap();
    let disorder = Disorder::new(Arc::new(http), cluster.clock.clone(), Some(seed));
    let disorder = Arc::new(disorder);
    let time: Arc<dyn Clock> = Arc::new(cluster.clock.clone());
    let far = Client::new(disorder.clone(), Arc::new(User::component("far")));
    let factory = Factory::new(far.clone(), time.clone()).knowing([ReplicaSet::resource(), Pod::resource()]);
    let manager = Manager::mirroring(factory, far, time);
    let _part = cluster.run_by(manager, Part::Controller("replicaset"));
    let client = cluster.client("test");
    let (sets, pods) = (
        client.namespaced::<ReplicaSet>("default"),
        client.namespaced::<Pod>("default"),
    );
    for name in SETS {
        sets.create(&set(name).replicas(3).build()).await.unwrap();
    }
    let run = Run {
        cluster,
        disorder: disorder.clone(),
    };
    run.until(|cluster| cluster.list::<Pod>().len() >= 4).await;
    // Some pods go before anybody can have heard of all that came.
    for pod in run.cluster.list::<Pod>().into_iter().step_by(2) {
        let name = pod.metadata.name.unwrap();
        let _ = pods.delete(&name, DeleteOptions::default()).await;
    }
    sets.scale_to("b", 5).await.unwrap();
    run.settled([3, 5, 3]).await;
    for (name, replicas) in SETS.into_iter().zip([4, 1, 0]) {
        sets.scale_to(name, replicas).await.unwrap();
    }
    run.settled([4, 1, 0]).await;
    let harm = disorder.harm();
    [&harm.late, &harm.swapped, &harm.lost, &harm.broken].map(|count| count.load(Ordering::Relaxed))
}

/// TR9, TR3: whatever becomes of the events of pods and sets on their way, the controller comes to the right end.
#[tokio::test]
async fn tr9_events_shuffled_late_or_lost_over_https_lead_to_the_right_end() {
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
