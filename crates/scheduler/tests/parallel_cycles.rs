//! Parallel optimistic cycles against a brute-force model: whatever the interleaving, no constraint is violated, no node is
//! over-committed, and a pod waits only if it fits nowhere.
//!
//! Workers schedule random pods while other threads change nodes and delete pods, so that plans conflict.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};
use setpoint_api::{Header, Key, Stored};
use setpoint_scheduler::cycle::SignatureCache;
use setpoint_scheduler::default_profile;
use setpoint_scheduler::framework::{Handle, Profiles};
use setpoint_scheduler::pod_info::{PodInfo, SpecInterner};
use setpoint_scheduler::scheduler::planner::{Attempt, Planner};
use setpoint_scheduler::state::{ClusterState, NodeRef};

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
        "metadata": {"labels": {"zone": zone}},
        "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": format!("{cpu}m"), "memory": "8Gi", "pods": "30"}},
    });
    stored("", &format!("node-{index}"), &object)
}

/// A pod with one of a few specs, so that signatures are shared; some have host ports, selectors and tolerations.
fn pod(index: usize, random: &mut Random) -> Value {
    let shape = random.below(8);
    let cpu = [50, 100, 250, 500][usize::try_from(shape % 4).unwrap()];
    let mut spec = json!({
        "schedulerName": "default-scheduler",
        "priority": shape % 3,
        "containers": [{"resources": {"requests": {"cpu": format!("{cpu}m"), "memory": "64Mi"}}}],
    });
    match shape {
        4 => spec["nodeSelector"] = json!({"zone": "b"}),
        5 => spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]),
        6 => {
            spec["containers"][0]["ports"] =
                json!([{"containerPort": 80, "hostPort": 8000 + random.below(4)}])
        }
        _ => {}
    }
    json!({"metadata": {"name": format!("pod-{index}")}, "spec": spec})
}

/// Whether the pod may run on the node besides `others`, computed from scratch.
fn model_fits(pod: &PodInfo, node: NodeRef<'_>, others: &[Arc<PodInfo>]) -> bool {
    let properties = node.properties();
    let sum =
        |amount: fn(&PodInfo) -> i64| others.iter().map(|other| amount(other)).sum::<i64>() + amount(pod);
    let ports = others.iter().flat_map(|other| &other.spec.host_ports);
    let mut taints = properties
        .taints
        .iter()
        .filter(|taint| taint.effect == "NoSchedule");
    let mut selected = pod.spec.node_selector.iter();
    sum(|pod| pod.spec.requests.milli_cpu) <= properties.allocatable.milli_cpu
        && sum(|pod| pod.spec.requests.memory) <= properties.allocatable.memory
        && i64::try_from(others.len()).unwrap() < properties.max_pods
        && taints.all(|taint| pod.spec.tolerations.iter().any(|own| own.key == taint.key))
        && selected.all(|(name, value)| properties.labels.get(name) == Some(value))
        && ports
            .clone()
            .all(|used| !pod.spec.host_ports.iter().any(|own| own.port == used.port))
}

/// Every pod on every node is allowed there besides the others.
#[track_caller]
fn check_valid(cluster: &ClusterState) {
    let mut pods = 0;
    for index in cluster.nodes().live() {
        let node = cluster.node(*index);
        for pod in node.pods() {
            let others: Vec<_> = node
                .pods()
                .iter()
                .filter(|other| other.key != pod.key)
                .cloned()
                .collect();
            assert!(
                model_fits(pod, node, &others),
                "{} violates a constraint on {}",
                pod.key,
                node.name()
            );
            pods += 1;
        }
    }
    assert_eq!(pods, cluster.pod_count(), "each pod is on exactly one node");
}

/// A pod fits nowhere, by the model. With `above`, pods of lower priority do not count.
fn fits_somewhere(cluster: &ClusterState, pod: &PodInfo, preempts: bool) -> bool {
    let mut nodes = cluster.nodes().live().iter().map(|index| cluster.node(*index));
    nodes.any(|node| {
        let stays = |other: &&Arc<PodInfo>| !preempts || other.priority() >= pod.priority();
        let nominated = cluster.nominated().on_node(node.name()).iter();
        let nominated = nominated.filter(|other| other.priority() >= pod.priority() && other.uid != pod.uid);
        let others: Vec<_> = node
            .pods()
            .iter()
            .filter(stays)
            .chain(nominated)
            .cloned()
            .collect();
        model_fits(pod, node, &others)
    })
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

/// Schedules all pods with some workers, while other threads interfere until they are done.
fn run(setup: &Setup, workers: usize) -> Vec<Arc<PodInfo>> {
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
                move || interfere(&setup.planner, seed, stopped)
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
fn interfere(planner: &Planner, seed: u64, stopped: &AtomicBool) {
    let mut random = Random(seed * 7919);
    while !stopped.load(Ordering::Relaxed) {
        let index = usize::try_from(random.below(NODES as u64)).unwrap();
        let turn = random.below(30);
        let mut cluster = planner.cluster.write();
        match turn {
            0..3 => {
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
            run(&setup, workers);
            check_valid(&setup.planner.cluster.read());
        }
    }
}

/// OC10
#[test]
fn a_pod_waits_only_if_it_fits_nowhere_and_preempts_if_that_helps() {
    for workers in [1, 4, 16] {
        let setup = setup(workers, 99);
        let waiting = run(&setup, workers);
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

#[test]
fn conflicts_happen_and_are_counted() {
    let total: u64 = (1..=3)
        .map(|seed| {
            let setup = setup(8, seed);
            run(&setup, 8);
            let (revalidated, replanned) = setup.planner.conflicts();
            revalidated + replanned
        })
        .sum();
    assert!(total > 0);
}
