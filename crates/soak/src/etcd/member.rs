//! [`Member`]: one etcd of the cluster, which is killed and started again.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use setpoint_conformance::wire::{Caller, Endpoint, Request};

use super::network::{Network, address};

const CLIENT_PORT: u16 = 2379;
const PEER_PORT: u16 = 2380;
const TIMEOUT: Duration = Duration::from_secs(2);

/// A member with its data.
#[derive(Debug)]
pub(crate) struct Member {
    node: usize,
    program: PathBuf,
    dir: PathBuf,
    running: Option<Child>,
}

impl Member {
    pub(crate) fn new(node: usize, program: &Path, dir: &Path) -> Self {
        Self {
            node,
            program: program.to_owned(),
            dir: dir.to_owned(),
            running: None,
        }
    }

    /// Starts the process, with its data if it has any.
    pub(crate) fn start(&mut self, network: &Network, nodes: usize) -> Result<()> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.dir.join(format!("etcd-{}.log", self.node)))?;
        let cluster: Vec<String> = (0..nodes)
            .map(|node| format!("{}={}", name(node), url(node, PEER_PORT)))
            .collect();
        let (client, peer) = (url(self.node, CLIENT_PORT), url(self.node, PEER_PORT));
        let data = self.dir.join(format!("etcd-{}", self.node));
        let mut command = network.command(self.node, &self.program);
        command
            .arg(format!("--name={}", name(self.node)))
            .arg(format!("--data-dir={}", data.display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster={}", cluster.join(",")))
            // Twice the defaults, for a machine that is busy with other things.
            .args(["--heartbeat-interval=200", "--election-timeout=2000"])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let started = command.spawn();
        self.running = Some(started.with_context(|| format!("start {}", self.program.display()))?);
        Ok(())
    }

    pub(crate) fn kill(&mut self) -> Result<()> {
        if let Some(mut running) = self.running.take() {
            running.kill()?;
            running.wait()?;
        }
        Ok(())
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.running.as_ref().map(Child::id);
        let pid = pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
        Ok(kill_process(pid.context("etcd does not run")?, signal)?)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Whether the member on this node is the leader, by its own account.
pub(crate) fn is_leader(node: usize) -> Result<bool> {
    let endpoint = Endpoint::of_address(&url(node, CLIENT_PORT), None)?.with_timeout(TIMEOUT);
    let mut connection = endpoint.connect(&Caller::Anonymous)?;
    let request = Request::new("POST", "/v3/maintenance/status").body("application/json", "{}");
    let response = connection.round_trip(&request)?;
    let status: Value = response.json().context("the status is JSON")?;
    let member = &status["header"]["member_id"];
    Ok(member.is_string() && *member == status["leader"])
}

/// The URL at which clients reach the member on a node.
pub(crate) fn client_url(node: usize) -> String {
    url(node, CLIENT_PORT)
}

fn name(node: usize) -> String {
    format!("m{node}")
}

fn url(node: usize, port: u16) -> String {
    format!("http://{}:{port}", address(node))
}
