//! The sudden end of the scheduler: of two schedulers in processes of their own, the leader is killed while it binds pods that
//! fill all nodes. Afterwards every pod is bound, those that were bound before are where they were, and no node is
//! over-committed.

use std::{
    collections::HashMap,
    path::Path,
    process::{Child, Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    check,
    objects::{self, Workload},
    run::{create, create_nodes, list, wait_until_bound},
};
use crate::{
    api::{
        Setting,
        objects::PODS,
        server::{Server, ServerComponents, new_dir},
    },
    controllers::api_client::ApiClient,
    report::{Measurement, Report},
};

pub(super) const NAME: &str = "failover";

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";
/// The successor waits until the lease of the killed leader has expired.
const ELECTION: [&str; 3] = [
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=300ms",
];
/// The pods that fill a node.
const PODS_PER_NODE: u64 = objects::NODE_CPU / objects::LARGE_POD_CPU;

/// A scheduler, killed when it is dropped.
struct Scheduler(Child);

/// Kills the leader when half of the pods are bound, and checks the result.
pub(super) async fn run(setting: &Setting, nodes: u64, report: &mut Report) -> Result<()> {
    let pods = nodes * PODS_PER_NODE;
    let dir = new_dir(setting)?;
    let server = Server::setpoint(setting, dir.path(), ServerComponents::ApiOnly).await?;
    let zones = create_nodes(setting, &server, nodes).await?;
    let pod = objects::low_priority_pod();
    create(setting, &server, (PODS, &pod), (0, pods)).await?;
    let mut client = ApiClient::new(&server).await?;
    let mut schedulers = vec![
        Scheduler::start(setting, dir.path())?,
        Scheduler::start(setting, dir.path())?,
    ];
    let middle = format!("{PODS}/low-{:08}", pods / 2);
    client.wait_until(&middle, |_, pod| node(pod).is_some()).await?;
    let leader = leader(&mut client, &schedulers).await?;
    drop(schedulers.swap_remove(leader));
    let killed = Instant::now();
    let before = bound(&list(&mut client).await?);
    wait_until_bound(&mut client).await?;
    let wall = killed.elapsed();
    let all = list(&mut client).await?;
    check::check(Workload::Plain, &all, &zones)?;
    check_unmoved(&before, &bound(&all), pods)?;
    eprintln!(
        "failover: {} of {pods} pods were bound before the kill",
        before.len()
    );
    let name = format!("failover_{nodes}_nodes_{pods}_pods");
    report.add(Measurement::new("scheduling", name, wall.as_secs_f64(), "s").operations(pods));
    server.stop().await
}

impl Scheduler {
    fn start(setting: &Setting, dir: &Path) -> Result<Self> {
        let mut command = Command::new(&setting.setpoint);
        command
            .args(["scheduler", "--kubeconfig"])
            .arg(dir.join("kubeconfig"))
            .args(ELECTION)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let started = command.spawn();
        Ok(Self(started.with_context(|| format!("starting {command:?}"))?))
    }
}

impl Drop for Scheduler {
    /// Errors are ignored: the child has exited already.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The position of the scheduler that holds the lease. The identity of a holder ends with the number of its process.
async fn leader(client: &mut ApiClient, schedulers: &[Scheduler]) -> Result<usize> {
    let lease = client.send_ok("GET", LEASE, "").await?;
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    let is_holder = |one: &Scheduler| holder.ends_with(&format!("_{}", one.0.id()));
    let found = schedulers.iter().position(is_holder);
    found.with_context(|| format!("no scheduler is the leader {holder:?}"))
}

fn node(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty())
}

/// The node of each bound pod.
fn bound(pods: &[Value]) -> HashMap<String, String> {
    let bound = pods.iter().filter_map(|pod| {
        let name = pod["metadata"]["name"].as_str()?;
        Some((name.to_owned(), node(pod)?.to_owned()))
    });
    bound.collect()
}

fn check_unmoved(before: &HashMap<String, String>, after: &HashMap<String, String>, pods: u64) -> Result<()> {
    ensure!(
        (before.len() as u64) < pods,
        "the leader had bound all pods before it was killed"
    );
    ensure!(
        after.len() as u64 == pods,
        "{} of {pods} pods are bound",
        after.len()
    );
    let moved = before.iter().find(|(pod, node)| after.get(*pod) != Some(*node));
    ensure!(moved.is_none(), "a bound pod has another node: {moved:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn rejects(before: &[(&str, &str)], after: &[(&str, &str)], expected: &str) {
        let map = |pods: &[(&str, &str)]| {
            let pods = pods.iter();
            pods.map(|(pod, node)| ((*pod).to_owned(), (*node).to_owned()))
                .collect()
        };
        let error = check_unmoved(&map(before), &map(after), 2)
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn lost_and_moved_pods_are_found() {
        rejects(&[("p", "a")], &[("p", "a")], "1 of 2 pods are bound");
        rejects(&[("p", "a")], &[("p", "b"), ("q", "a")], "another node");
        rejects(
            &[("p", "a"), ("q", "a")],
            &[("p", "a"), ("q", "a")],
            "had bound all pods",
        );
    }
}
