//! Components that are killed at any time, in any order (mission CL1, CL7).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use setpoint_testkit::{Cluster, Component, RunningComponent, replica_set};

const REPLICAS: i32 = 8;

/// A process that can be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Controller,
    Scheduler,
    Nodes,
    /// The server, and with it everything in its process.
    Server,
}

use Target::{Controller, Nodes, Scheduler, Server};

/// A cluster with all components.
struct TestCluster {
    cluster: Cluster,
    components: Vec<(Target, RunningComponent)>,
}

impl TestCluster {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        let mut test = Self {
            cluster,
            components: Vec::new(),
        };
        test.run_all();
        test
    }

    fn run_all(&mut self) {
        for target in [Controller, Scheduler, Nodes] {
            self.run(target);
        }
    }

    fn run(&mut self, target: Target) {
        let part = match target {
            Controller => Component::Controller("replicaset"),
            Scheduler => Component::Scheduler,
            Nodes | Server => Component::nodes(3),
        };
        self.components.push((target, self.cluster.run(part)));
    }

    /// Kills a component and starts it again.
    async fn kill(mut self, target: Target) -> Self {
        if target == Server {
            for (_, part) in self.components.drain(..) {
                part.kill().await;
            }
            self.cluster = self.cluster.restart().await;
            self.run_all();
            return self;
        }
        let at = self
            .components
            .iter()
            .position(|(own, _)| *own == target)
            .unwrap();
        self.components.remove(at).1.kill().await;
        self.run(target);
        self
    }

    async fn create(&self) {
        let sets = self.cluster.client("test").namespaced("default");
        sets.create(
            &replica_set("web")
                .replicas(REPLICAS)
                .requesting("cpu", "1")
                .build(),
        )
        .await
        .unwrap();
    }

    async fn scale(&self, replicas: i32) {
        let sets = self.cluster.client("test").namespaced::<ReplicaSet>("default");
        setpoint_client::retry_on_conflict(10, || async {
            let mut set = sets.get("web").await?.to_owned()?;
            set.spec.replicas = Some(replicas);
            sets.update(&set).await
        })
        .await
        .unwrap();
    }

    /// Waits for the state that an undisturbed cluster converges to, and checks that there is nothing else.
    async fn converge(&self, order: &[Target]) {
        let what = format!("{REPLICAS} ready replicas after killing {order:?}");
        self.cluster
            .until(&what, |cluster| {
                let set: Option<ReplicaSet> = cluster.find("web");
                let status = set.and_then(|set| set.status).unwrap_or_default();
                status.ready_replicas == Some(REPLICAS) && status.replicas == REPLICAS
            })
            .await;
        self.cluster.settle().await;
        let pods: Vec<Pod> = self.cluster.list();
        assert_eq!(pods.len(), 8, "after killing {order:?}");
        assert_eq!(self.cluster.list::<Node>().len(), 3);
        assert_eq!(
            addresses(&pods).len(),
            8,
            "two pods share an address after killing {order:?}"
        );
    }
}

fn addresses(pods: &[Pod]) -> BTreeSet<Ipv4Addr> {
    let address = |pod: &Pod| pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok();
    pods.iter().filter_map(address).collect()
}

/// All orders of the four.
fn orders() -> Vec<Vec<Target>> {
    let mut orders = vec![Vec::new()];
    for _ in 0..4 {
        let longer = |order: &Vec<Target>| {
            let rest = [Controller, Scheduler, Nodes, Server].into_iter();
            let rest = rest.filter(|target| !order.contains(target)).collect::<Vec<_>>();
            rest.into_iter()
                .map(|target| [order.clone(), vec![target]].concat())
                .collect::<Vec<_>>()
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    orders
}

/// CL7: whichever component is killed in the middle of a rollout, and in whichever order, the final state is the same.
#[tokio::test]
async fn cl7_parts_killed_in_every_order_come_to_the_same_end() {
    assert_eq!(orders().len(), 24);
    for order in orders() {
        let mut test = TestCluster::start().await;
        test.create().await;
        for (killed, target) in order.iter().enumerate() {
            // Each kill comes a little later in the rollout than the one before.
            test.cluster
                .until("some pods", |cluster| cluster.list::<Pod>().len() >= killed * 2)
                .await;
            test = test.kill(*target).await;
        }
        test.converge(&order).await;
    }
}

/// CL1: a cluster whose server was killed resumes, and still reconciles updates.
#[tokio::test]
async fn cl1_a_restarted_cluster_resumes_without_a_hand() {
    let mut test = TestCluster::start().await;
    test.create().await;
    test.converge(&[]).await;
    test.scale(3).await;
    test = test.kill(Server).await;
    test.cluster
        .until("three pods", |cluster| cluster.list::<Pod>().len() == 3)
        .await;
    test.scale(REPLICAS).await;
    test.converge(&[Server]).await;
}

/// CL5: components that restart in a settled cluster find nothing to do.
#[tokio::test]
async fn cl5_a_restart_in_a_settled_cluster_writes_nothing() {
    let mut test = TestCluster::start().await;
    test.create().await;
    test.converge(&[]).await;
    let before = test.cluster.versions::<Pod>();
    test.cluster.interceptor.clear();
    for target in [Controller, Scheduler] {
        test = test.kill(target).await;
        test.cluster.settle().await;
    }
    assert_eq!(test.cluster.interceptor.writes(), Vec::<String>::new());
    assert_eq!(test.cluster.versions::<Pod>(), before);
}
