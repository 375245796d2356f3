//! Schedulers in processes of their own: several at once, leader election, and the sudden end of the leader (FL3,
//! OC10).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::Cluster;
use cluster::component::Component;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use setpoint_api::SystemClock;
use setpoint_runtime::{Cache, Lister, SharedInformerFactory};
use setpoint_testkit::{node, pod};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Short times of an election: the lease of a leader that is gone expires after six seconds. A leader on a busy machine has five
/// to renew it.
const ELECTION: &[&str] = &[
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=300ms",
];

/// A server without a scheduler, and what is watched of it.
struct Setup {
    cluster: Cluster,
    factory: SharedInformerFactory,
    stop: CancellationToken,
    _tasks: JoinSet<()>,
}

impl Setup {
    /// Starts a server with nodes of this many CPUs.
    async fn new(nodes: &[(&str, u32)]) -> Self {
        let cluster = Cluster::new(&["--memory", "--controllers", "none", "--nodes", "0"]);
        let client = cluster.client();
        for (name, cpus) in nodes {
            let nodes = client.all::<Node>();
            let node = node(name)
                .capacity("cpu", &cpus.to_string())
                .capacity("pods", "500")
                .build();
            let created = nodes.create(&node).await.unwrap();
            let mut ready = created.to_owned().unwrap();
            // Without the node lifecycle controller nothing removes the taint of a new node.
            ready.spec.get_or_insert_default().taints = None;
            nodes.update(&ready).await.unwrap();
        }
        let factory = SharedInformerFactory::new(client, Arc::new(SystemClock::new()));
        let stop = CancellationToken::new();
        let (running, token) = (factory.clone(), stop.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { running.run(token).await.unwrap() });
        Self {
            cluster,
            factory,
            stop,
            _tasks: tasks,
        }
    }

    /// Creates pods `prefix-0`, `prefix-1`, ... that request a tenth of a CPU.
    async fn create_pods(&self, prefix: &str, count: usize, scheduler: &str) {
        let pods = self.cluster.client().namespaced::<Pod>("default");
        for number in 0..count {
            let mut pod = pod(&format!("{prefix}-{number}"))
                .requesting("cpu", "100m")
                .build();
            pod.spec.get_or_insert_default().scheduler_name = Some(scheduler.to_owned());
            pods.create(&pod).await.unwrap();
        }
    }

    /// Waits until the objects of a type are as expected.
    async fn until<T: setpoint_client::Object>(&self, is_expected: impl Fn(&Lister<T>) -> bool) {
        let informer = self.factory.informer_for::<T>();
        let cache: &Arc<Cache> = informer.cache();
        cache.synced().await;
        let mut changes = cache.subscribe(None).unwrap();
        let lister = self.factory.lister::<T>();
        while !is_expected(&lister) {
            changes.next().await.unwrap();
        }
    }

    /// The node of each bound pod.
    fn bound(&self) -> BTreeMap<String, String> {
        let pods = self.factory.lister::<Pod>().in_namespace("default");
        let bound = pods.iter().filter_map(|pod| {
            let pod = pod.to_owned().unwrap();
            Some((pod.metadata.name?, pod.spec?.node_name?))
        });
        bound.collect()
    }

    /// Waits until this many pods are bound.
    async fn until_bound(&self, count: usize) {
        self.until::<Pod>(|_| self.bound().len() >= count).await;
    }

    /// Waits until this many pods without a node are reported as unschedulable.
    async fn until_unschedulable(&self, count: usize) {
        self.until::<Pod>(|pods| {
            let pods = pods.in_namespace("default");
            let pods = pods.iter().map(|pod| pod.to_owned().unwrap());
            let waiting = pods.filter(is_unschedulable);
            waiting.count() == count
        })
        .await;
    }

    /// The pods on each node.
    fn pods_by_node(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for node in self.bound().into_values() {
            *counts.entry(node).or_default() += 1;
        }
        counts
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// FL3
#[tokio::test]
async fn fl3_a_scheduler_of_its_own_process_schedules_pods_that_waited_for_it() {
    let setup = Setup::new(&[("a", 4), ("b", 4)]).await;
    setup.create_pods("web", 20, "default-scheduler").await;
    setup
        .until::<Pod>(|pods| pods.in_namespace("default").len() == 20)
        .await;
    assert!(setup.bound().is_empty());
    let scheduler = Component::start(&setup.cluster, "scheduler", &[]);
    setup.until_bound(20).await;
    setup
        .until::<Lease>(|leases| {
            let leases = leases.in_namespace("kube-system");
            leases
                .iter()
                .any(|lease| scheduler.holds(&lease.to_owned().unwrap()))
        })
        .await;
}

/// OC10: two schedulers of one name and one of another name are active at once. Of a pod that two of them bind, the API
/// server accepts one binding, and only that one is reported.
#[tokio::test]
async fn oc10_schedulers_of_the_same_and_of_other_names_bind_each_pod_once() {
    let setup = Setup::new(&[("a", 32), ("b", 32), ("c", 32)]).await;
    let config = setup.cluster.dir.path().join("other.yaml");
    let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                profiles: [{schedulerName: other}]\n";
    std::fs::write(&config, text).unwrap();
    let config = format!("--config={}", config.display());
    let _schedulers = [
        Component::start(&setup.cluster, "scheduler", &["--leader-elect=false"]),
        Component::start(&setup.cluster, "scheduler", &["--leader-elect=false"]),
        Component::start(&setup.cluster, "scheduler", &["--leader-elect=false", &config]),
    ];
    setup.create_pods("web", 60, "default-scheduler").await;
    setup.create_pods("job", 60, "other").await;
    setup.until_bound(120).await;
    let scheduled = |events: &Lister<Event>| {
        let events = events.in_namespace("default");
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for event in events.iter().map(|event| event.to_owned().unwrap()) {
            if event.reason.as_deref() == Some("Scheduled") {
                *counts
                    .entry(event.involved_object.name.unwrap_or_default())
                    .or_default() += 1;
            }
        }
        counts
    };
    setup
        .until::<Event>(|events| scheduled(events).len() == 120)
        .await;
    let counts = scheduled(&setup.factory.lister());
    let repeated: Vec<_> = counts.iter().filter(|(_, count)| **count != 1).collect();
    assert!(repeated.is_empty(), "bound more than once: {repeated:?}");
}

/// OC10: three schedulers that know nothing of each other share nodes that are too small for all pods. The API server
/// rejects a binding to a node that another scheduler has used since it was seen, so that no node is over-committed.
#[tokio::test]
async fn oc10_schedulers_that_are_active_at_once_over_commit_no_node() {
    let setup = Setup::new(&[("a", 4), ("b", 4), ("c", 4)]).await;
    let flags = ["--leader-elect=false"];
    setup.create_pods("web", 160, "default-scheduler").await;
    let _schedulers = [(); 3].map(|()| Component::start(&setup.cluster, "scheduler", &flags));
    setup
        .until::<Pod>(|pods| {
            let pods = pods.in_namespace("default");
            let pods = pods.iter().map(|pod| pod.to_owned().unwrap());
            let decided = pods.filter(|pod| is_unschedulable(pod) || node_of(pod).is_some());
            decided.count() == 160
        })
        .await;
    let pods = setup.pods_by_node();
    assert!(
        pods.values().all(|count| *count <= 40),
        "over-committed: {pods:?}"
    );
    setup.until_bound(120).await;
    let full = [("a", 40), ("b", 40), ("c", 40)].map(|(node, pods)| (node.to_owned(), pods));
    assert_eq!(setup.pods_by_node(), BTreeMap::from(full));
}

fn node_of(pod: &Pod) -> Option<&String> {
    pod.spec.as_ref()?.node_name.as_ref()
}

/// Whether the last attempt found no node.
fn is_unschedulable(pod: &Pod) -> bool {
    let status = pod.status.iter();
    let mut conditions = status.flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|one| one.reason.as_deref() == Some("Unschedulable"))
}

/// OC10: the leader is killed while it schedules more pods than fit. Its successor goes on: what was bound stays, what fits
/// is bound, and no node has more pods than it can run.
#[tokio::test]
async fn oc10_after_the_leader_was_killed_its_successor_binds_the_rest_and_over_commits_nothing() {
    let setup = Setup::new(&[("a", 4), ("b", 4), ("c", 4)]).await;
    let start = || Component::start(&setup.cluster, "scheduler", ELECTION);
    let mut schedulers = vec![start(), start()];
    setup.create_pods("web", 20, "default-scheduler").await;
    setup.until_bound(20).await;
    let lease = setup.cluster.client().namespaced::<Lease>("kube-system");
    let lease = lease.get("kube-scheduler").await.unwrap().to_owned().unwrap();
    let leader = schedulers.iter().position(|one| one.holds(&lease)).unwrap();
    let kill = async {
        setup.until_bound(50).await;
        drop(schedulers.remove(leader));
        setup.bound()
    };
    let ((), before) = tokio::join!(setup.create_pods("more", 140, "default-scheduler"), kill);
    setup.until_bound(120).await;
    setup.until_unschedulable(40).await;
    let after = setup.bound();
    assert_eq!(after.len(), 120);
    assert!(before.len() >= 50);
    for (pod, node) in before {
        assert_eq!(after.get(&pod), Some(&node), "{pod} has another node");
    }
    let full = [("a", 40), ("b", 40), ("c", 40)].map(|(node, pods)| (node.to_owned(), pods));
    assert_eq!(setup.pods_by_node(), BTreeMap::from(full));
}
