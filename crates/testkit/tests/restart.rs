//! Parts that are killed at any time, in any order (mission CL1, CL7).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use setpoint_testkit::{Cluster, Part, RunningPart, set};

const REPLICAS: i32 = 8;

/// What can be killed, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Controller,
    Scheduler,
    Nodes,
    /// The server, and with it everything in its process.
    Server,
}

use Victim::{Controller, Nodes, Scheduler, Server};

/// A cluster with all parts, each of which may be dead for the moment.
struct World {
    cluster: Cluster,
    parts: Vec<(Victim, RunningPart)>,
}

impl World {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        let mut world = Self {
            cluster,
            parts: Vec::new(),
        };
        world.run_all();
        world
    }

    fn run_all(&mut self) {
        for victim in [Controller, Scheduler, Nodes] {
            self.run(victim);
        }
    }

    fn run(&mut self, victim: Victim) {
        let part = match victim {
            Controller => Part::Controller("replicaset"),
            Scheduler => Part::Scheduler,
            Nodes | Server => Part::nodes(3),
        };
        self.parts.push((victim, self.cluster.run(part)));
    }

    /// Kills a part and starts it again.
    async fn kill(mut self, victim: Victim) -> Self {
        if victim == Server {
            for (_, part) in self.parts.drain(..) {
                part.kill().await;
            }
            self.cluster = self.cluster.restart().await;
            self.run_all();
            return self;
        }
        let at = self.parts.iter().position(|(own, _)| *own == victim).unwrap();
        self.parts.remove(at).1.kill().await;
        self.run(victim);
        self
    }

    async fn create(&self) {
        let sets = self.cluster.client("test").namespaced("default");
        sets.create(&set("web").replicas(REPLICAS).asking("cpu", "1").build())
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

    /// Waits for the state that an undisturbed cluster comes to, and checks that there is nothing else.
    async fn converge(&self, order: &[Victim]) {
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
fn orders() -> Vec<Vec<Victim>> {
    let mut orders = vec![Vec::new()];
    for _ in 0..4 {
        let longer = |order: &Vec<Victim>| {
            let rest = [Controller, Scheduler, Nodes, Server].into_iter();
            let rest = rest.filter(|victim| !order.contains(victim)).collect::<Vec<_>>();
            rest.into_iter()
                .map(|victim| [order.clone(), vec![victim]].concat())
                .collect::<Vec<_>>()
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    orders
}

/// CL7: whichever part is killed in the middle of a rollout, and in whichever order, the end is the same.
#[tokio::test]
async fn cl7_parts_killed_in_every_order_come_to_the_same_end() {
    assert_eq!(orders().len(), 24);
    for order in orders() {
        let mut world = World::start().await;
        world.create().await;
        for (killed, victim) in order.iter().enumerate() {
            // Each kill comes a little later in the rollout than the one before.
            world
                .cluster
                .until("some pods", |cluster| cluster.list::<Pod>().len() >= killed * 2)
                .await;
            world = world.kill(*victim).await;
        }
        world.converge(&order).await;
    }
}

/// CL1: a cluster whose server was killed goes on by itself, and still follows what is asked of it.
#[tokio::test]
async fn cl1_a_restarted_cluster_resumes_without_a_hand() {
    let mut world = World::start().await;
    world.create().await;
    world.converge(&[]).await;
    world.scale(3).await;
    world = world.kill(Server).await;
    world
        .cluster
        .until("three pods", |cluster| cluster.list::<Pod>().len() == 3)
        .await;
    world.scale(REPLICAS).await;
    world.converge(&[Server]).await;
}

/// CL5: parts that start again in a settled cluster find nothing to do.
#[tokio::test]
async fn cl5_a_restart_in_a_settled_cluster_writes_nothing() {
    let mut world = World::start().await;
    world.create().await;
    world.converge(&[]).await;
    let before = world.cluster.versions::<Pod>();
    world.cluster.link.clear();
    for victim in [Controller, Scheduler] {
        world = world.kill(victim).await;
        world.cluster.settle().await;
    }
    assert_eq!(world.cluster.link.writes(), Vec::<String>::new());
    assert_eq!(world.cluster.versions::<Pod>(), before);
}
