//! Parallel optimistic cycles against a brute-force model: whatever the interleaving, no constraint is violated, no node is
//! over-committed, and a pod waits only if it fits nowhere. Results that equal pods share are those of a cycle of its own.
//!
//! Workers schedule random pods with affinity, anti-affinity and spread constraints while other threads change nodes and
//! delete pods, so that plans conflict.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod model;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};
use setpoint_api::{Header, Key, Stored};
use setpoint_scheduler::cycle::{PlanError, Rotation, SignatureCache, plan, plan_cached};
use setpoint_scheduler::default_profile;
use setpoint_scheduler::framework::{Handle, Profiles};
use setpoint_scheduler::pod_info::{PodInfo, SpecInterner};
use setpoint_scheduler::scheduler::planner::{Attempt, Planner};
use setpoint_scheduler::state::ClusterState;

use model::{check_placements, check_valid, fits_somewhere};

const NODES: usize = 18;
const PODS: usize = 400;

/// A generator of pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn stored(namespace: &str, name: &str, object: &Value) -> Arc<Stored> {
    let mut header = Header::new(Key::new(namespace, name));
    header.uid = name.into();
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    header.labels = labels
        .map(|(name, value)| (name.as_str().into(), value.as_str().unwrap().into()))
        .collect();
    Arc::new(Stored::new(header, object.to_string().into(), 1))
}

/// A node with one of a few sizes, labels and taints. `turn` changes its size slightly.
fn node(index: usize, turn: u64) -> Arc<Stored> {
    let cpu = 4000 + 100 * (turn % 3);
    let taints = match index % 6 {
        0 => json!([{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]),
        _ => json!([]),
    };
    let zone = ["a", "b", "c"][index % 3];
    let object = json!({
        "metadata": {"labels": {"zone": zone, "host": format!("node-{index}")}},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": format!("{cpu}m"), "memory": "8Gi", "pods": "30"}},
    });
    stored("", &format!("node-{index}"), &object)
}

/// A pod with one of a few specs, so that signatures are shared; some have host ports, selectors, tolerations, affinity,
/// anti-affinity or spread constraints.
fn pod(index: usize, random: &mut Random) -> Value {
    let shape = random.below(14);
    let cpu = [50, 100, 250, 500][usize::try_from(shape % 4).unwrap()];
    let mut spec = json!({
        "schedulerName": "default-scheduler",
        "priority": shape % 3,
        "containers": [{"resources": {"requests": {"cpu": format!("{cpu}m"), "memory": "64Mi"}}}],
    });
    let mut app = "plain";
    let selects = |app: &str| json!({"matchLabels": {"app": app}});
    match shape {
        4 => spec["nodeSelector"] = json!({"zone": "b"}),
        5 => spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]),
        6 => {
            spec["containers"][0]["ports"] =
                json!([{"containerPort": 80, "hostPort": 8000 + random.below(4)}])
        }
        8 | 9 => {
            app = "alone";
            let term = json!({"topologyKey": "host", "labelSelector": selects(app)});
            spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!([term]);
        }
        // Selected by the anti-affinity of others, without terms of its own.
        10 => app = "alone",
        11 => {
            app = "together";
            let term = json!({"topologyKey": "zone", "labelSelector": selects(app)});
            spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([term]);
        }
        12 | 13 => {
            app = ["even", "level"][usize::try_from(shape - 12).unwrap()];
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": shape - 11,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selects(app),
            }, {
                "maxSkew": 1,
                "topologyKey": "host",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": selects(app),
            }]);
        }
        _ => {}
    }
    json!({"metadata": {"name": format!("pod-{index}"), "labels": {"app": app}}, "spec": spec})
}

struct Setup {
    planner: Planner,
    pods: Vec<Arc<PodInfo>>,
}

fn setup(workers: usize, seed: u64) -> Setup {
    let profiles = Profiles::new([default_profile(&Handle::default())]);
    let planner = Planner::new(Arc::new(profiles), workers);
    for index in 0..NODES {
        planner.cluster.write().set_node(&node(index, 0));
    }
    let (mut random, mut interner) = (Random(seed), SpecInterner::default());
    let pods = (0..PODS).map(|index| {
        let object = pod(index, &mut random);
        let name = format!("pod-{index}");
        let pod = PodInfo::read(&stored("default", &name, &object), &mut interner);
        Arc::new(pod.unwrap())
    });
    Setup {
        pods: pods.collect(),
        planner,
    }
}

/// What other threads do while pods are scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interference {
    /// They change nodes and delete pods.
    Deletions,
    /// They change nodes only, so that what held when a pod was scheduled still holds.
    NodesOnly,
}

/// Schedules all pods with some workers, while other threads interfere until they are done.
fn run(setup: &Setup, workers: usize, interference: Interference) -> Vec<Arc<PodInfo>> {
    let next = AtomicUsize::new(0);
    let stopped = AtomicBool::new(false);
    let waiting = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|_| scope.spawn(|| work(setup, &next, &waiting)))
            .collect();
        for seed in 1..=2 {
            scope.spawn({
                let stopped = &stopped;
                move || interfere(&setup.planner, seed, interference, stopped)
            });
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        stopped.store(true, Ordering::Relaxed);
    });
    waiting.into_inner()
}

fn work(setup: &Setup, next: &AtomicUsize, waiting: &Mutex<Vec<Arc<PodInfo>>>) {
    let mut cache = SignatureCache::default();
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(pod) = setup.pods.get(index) else {
            return;
        };
        match setup.planner.attempt(pod, &mut cache) {
            Attempt::Assumed { .. } => {}
            Attempt::Unschedulable(_) | Attempt::Conflicts => waiting.lock().push(pod.clone()),
            other => panic!("{other:?}"),
        }
    }
}

/// Changes nodes and deletes pods, so that plans do not hold.
fn interfere(planner: &Planner, seed: u64, interference: Interference, stopped: &AtomicBool) {
    let mut random = Random(seed * 7919);
    while !stopped.load(Ordering::Relaxed) {
        let index = usize::try_from(random.below(NODES as u64)).unwrap();
        let turn = random.below(30);
        let mut cluster = planner.cluster.write();
        match turn {
            0..3 if interference == Interference::Deletions => {
                let key = Key::new("default", &format!("pod-{}", random.below(PODS as u64)));
                cluster.remove_pod(&key);
            }
            3 => {
                cluster.set_node(&node(index, 1));
            }
            _ => cluster.nominate_nothing(index),
        }
        drop(cluster);
        std::thread::yield_now();
    }
}

/// A change of a node's sequence without any change of its content.
trait NominateNothing {
    fn nominate_nothing(&mut self, node: usize);
}

impl NominateNothing for ClusterState {
    fn nominate_nothing(&mut self, node: usize) {
        let pod = self.pods().next().cloned();
        if let Some(pod) = pod {
            self.nominate(pod.clone(), &format!("node-{node}"));
            self.remove_nomination(&pod.key);
        }
    }
}

/// OC10
#[test]
fn any_number_of_workers_never_violates_a_constraint() {
    for workers in [1, 2, 4, 16] {
        for seed in 1..=2 {
            let setup = setup(workers, seed);
            run(&setup, workers, Interference::Deletions);
            check_valid(&setup.planner.cluster.read());
        }
    }
}

/// OC10
#[test]
fn any_number_of_workers_respects_affinity_and_spread() {
    for workers in [1, 2, 4, 16] {
        for seed in 3..=4 {
            let setup = setup(workers, seed);
            run(&setup, workers, Interference::NodesOnly);
            let cluster = setup.planner.cluster.read();
            check_valid(&cluster);
            check_placements(&cluster);
        }
    }
}

/// OC10
#[test]
fn a_pod_waits_only_if_it_fits_nowhere_and_preempts_if_that_helps() {
    for workers in [1, 2, 4, 16] {
        let setup = setup(workers, 99);
        let waiting = run(&setup, workers, Interference::Deletions);
        let mut cache = SignatureCache::default();
        assert!(!waiting.is_empty(), "the cluster is too small for all pods");
        for pod in waiting {
            let (fits, may_preempt) = {
                let cluster = setup.planner.cluster.read();
                (
                    fits_somewhere(&cluster, &pod, false),
                    fits_somewhere(&cluster, &pod, true),
                )
            };
            match setup.planner.attempt(&pod, &mut cache) {
                Attempt::Assumed { .. } => assert!(fits, "{} was scheduled", pod.key),
                Attempt::Unschedulable(failure) => {
                    assert!(!fits, "{} waits: {}", pod.key, failure.diagnosis);
                    let is_nominated = failure
                        .nominated_node
                        .as_deref()
                        .is_some_and(|node| !node.is_empty());
                    assert_eq!(is_nominated, may_preempt, "{}: {}", pod.key, failure.diagnosis);
                }
                other => panic!("{other:?}"),
            }
        }
        check_valid(&setup.planner.cluster.read());
    }
}

/// The node that a cycle selects, or the message.
fn decision(
    cluster: &ClusterState,
    planned: Result<setpoint_scheduler::cycle::Plan, PlanError>,
) -> Result<String, String> {
    match planned {
        Ok(plan) => Ok(format!("{} {:?}", cluster.node(plan.node).name(), plan.scores)),
        Err(PlanError::Unfit(unfit)) => Err(unfit.diagnosis.to_string()),
        Err(error) => Err(format!("{error:?}")),
    }
}

#[test]
fn shared_results_are_those_of_a_cycle_of_its_own() {
    for seed in 1..=6 {
        let setup = setup(1, seed);
        let (profile, mut cache) = (default_profile(&Handle::default()), SignatureCache::default());
        let mut random = Random(seed * 31);
        for (turn, pod) in setup.pods.iter().enumerate() {
            let start = usize::try_from(random.below(100)).unwrap();
            let rotation = Rotation { start, turn };
            let cluster = setup.planner.cluster.read();
            let cached = plan_cached(&profile, pod, &cluster, rotation, &mut cache);
            let node = cached
                .as_ref()
                .ok()
                .map(|plan| cluster.node(plan.node).name().to_owned());
            let alone = plan(&profile, pod, &cluster, rotation);
            let has_choice = alone.as_ref().is_ok_and(|plan| plan.statistics.feasible > 1);
            let (cached, alone) = (decision(&cluster, cached), decision(&cluster, alone));
            match has_choice || alone.is_err() {
                true => assert_eq!(cached, alone, "{}", pod.key),
                // The only feasible node needs no scores.
                false => assert_eq!(node.as_deref(), alone.unwrap().split(' ').next(), "{}", pod.key),
            }
            drop(cluster);
            let mut cluster = setup.planner.cluster.write();
            if let Some(node) = node {
                cluster.assume(Arc::new(pod.assigned_to(&node)));
            }
            if random.below(6) == 0 {
                let key = Key::new("default", &format!("pod-{}", random.below(PODS as u64)));
                cluster.remove_pod(&key);
            }
        }
    }
}

#[test]
fn conflicts_happen_and_are_counted() {
    let total: u64 = (1..=3)
        .map(|seed| {
            let setup = setup(8, seed);
            run(&setup, 8, Interference::Deletions);
            let (revalidated, replanned) = setup.planner.conflicts();
            revalidated + replanned
        })
        .sum();
    assert!(total > 0);
}
