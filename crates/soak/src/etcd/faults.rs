//! The faults of the cluster. Each is injected, held for a while, and ended by [`heal`].

use std::time::Duration;

use anyhow::{Context, Result};
use rand::Rng;
use rand::rngs::StdRng;
use rustix::process::Signal;
use setpoint_conformance::time::{now, sleep};

use super::cluster::{Cluster, NODES, wait};
use crate::faults::clock;
use crate::process::StartOptions;

/// How long a fault waits for a leader of etcd, or for the end of a server.
const LEADER: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);

/// A fault that can be injected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    inject: fn(&Cluster, &mut StdRng) -> Result<()>,
}

/// Every fault. A new one is a function and a row.
pub(crate) const ALL: &[Fault] = &[
    Fault::new("kill-server", |cluster, random| {
        cluster.servers[any_node(random)].lock().kill()
    }),
    Fault::new("terminate-server", |cluster, random| {
        let mut server = cluster.servers[any_node(random)].lock();
        server.signal(Signal::TERM)?;
        server.wait_until_ended(LEADER)
    }),
    Fault::new("kill-etcd-leader", |cluster, _| {
        let leader = leader(cluster)?;
        cluster.members[leader].lock().kill()
    }),
    Fault::new("kill-etcd", |cluster, _| {
        cluster.members.iter().try_for_each(|member| member.lock().kill())
    }),
    Fault::new("pause-server", |cluster, random| {
        cluster.servers[any_node(random)].lock().signal(Signal::STOP)
    }),
    Fault::new("pause-etcd-leader", |cluster, _| {
        let leader = leader(cluster)?;
        cluster.members[leader].lock().signal(Signal::STOP)
    }),
    Fault::new("unplug-node", |cluster, random| {
        cluster.network.unplug(any_node(random))
    }),
    Fault::new("partition-etcd-leader", |cluster, _| {
        let leader = leader(cluster)?;
        other_nodes(leader).try_for_each(|other| cut(cluster, leader, other))
    }),
    Fault::new("partition-node", |cluster, random| {
        let node = any_node(random);
        other_nodes(node).try_for_each(|other| cut(cluster, node, other))
    }),
    // What the node sends is dropped, what it receives is not.
    Fault::new("mute-node", |cluster, random| {
        let node = any_node(random);
        other_nodes(node).try_for_each(|other| cluster.network.cut(node, other))
    }),
    // Each node reaches one of the two others.
    Fault::new("partition-ring", |cluster, random| {
        let node = any_node(random);
        cut(cluster, node, (node + 1) % NODES)
    }),
    Fault::new("clock-jump", |cluster, random| {
        cluster.start_server(any_node(random), &clock::jump(random))
    }),
];

impl Fault {
    const fn new(name: &'static str, inject: fn(&Cluster, &mut StdRng) -> Result<()>) -> Self {
        Self { name, inject }
    }

    pub(crate) fn inject(&self, cluster: &Cluster, random: &mut StdRng) -> Result<()> {
        (self.inject)(cluster, random).with_context(|| self.name)
    }

    /// Why it cannot be injected here, if it cannot.
    pub(crate) fn skipped(&self) -> Option<String> {
        (self.name == "clock-jump" && clock::library().is_none())
            .then(|| "libfaketime is not installed".to_owned())
    }
}

/// Ends all faults. Returns how long it took until each server served again.
pub(crate) fn heal(cluster: &Cluster) -> Result<Duration> {
    let started = now();
    cluster.network.restore()?;
    cluster.resume();
    for node in 0..NODES {
        cluster.start_member(node)?;
    }
    wait("a leader of etcd", || cluster.leader().map(drop))?;
    for node in 0..NODES {
        if !cluster.servers[node].lock().is_running_normally() {
            wait("the start of a server", || {
                cluster.start_server(node, &StartOptions::default())
            })?;
        }
    }
    cluster.wait_until_ready()?;
    Ok(started.elapsed())
}

fn any_node(random: &mut StdRng) -> usize {
    random.random_range(0..NODES)
}

fn other_nodes(node: usize) -> impl Iterator<Item = usize> {
    (0..NODES).filter(move |other| *other != node)
}

fn cut(cluster: &Cluster, one: usize, other: usize) -> Result<()> {
    cluster.network.cut(one, other)?;
    cluster.network.cut(other, one)
}

/// The node of etcd's leader, if there is one soon.
fn leader(cluster: &Cluster) -> Result<usize> {
    let started = now();
    loop {
        match cluster.leader() {
            Err(_) if started.elapsed() < LEADER => sleep(POLL),
            leader => return leader,
        }
    }
}
