//! [`Cluster`]: three nodes, each with an etcd and a server.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use rustix::process::Signal;
use setpoint_conformance::time::{now, sleep};
use setpoint_conformance::wire::Endpoint;
use tempfile::TempDir;

use super::member::{self, Member};
use super::network::{self, Network};
use crate::args::Args;
use crate::process::{Launch, Process, StartOptions};
use crate::session::Session;
use crate::soak::ADMIN;

pub(crate) const NODES: usize = 3;

const PORT: u16 = 6443;
/// How long a client waits for a response.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the cluster may take to serve again after the faults have ended.
const RECOVERY: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(50);

/// The nodes. Each of their processes is killed when this is dropped.
pub(crate) struct Cluster {
    pub(crate) members: Vec<Mutex<Member>>,
    pub(crate) servers: Vec<Mutex<Process>>,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) network: Network,
    dir: TempDir,
}

impl Cluster {
    /// Starts all members, and all servers with these flags for each node, with the same CAs and keys.
    pub(crate) fn start(args: &Args, flags: impl Fn(usize) -> Vec<String>) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let network = Network::start(NODES)?;
        let mut cluster = Self {
            members: Vec::new(),
            servers: Vec::new(),
            endpoints: Vec::new(),
            network,
            dir,
        };
        for node in 0..NODES {
            let mut member = Member::new(node, &args.etcd_program, cluster.dir.path());
            member.start(&cluster.network, NODES)?;
            cluster.members.push(Mutex::new(member));
        }
        wait("a leader of etcd", || cluster.leader().map(drop))?;
        for node in 0..NODES {
            cluster.add_server(node, args, flags(node))?;
        }
        Ok(cluster)
    }

    fn add_server(&mut self, node: usize, args: &Args, flags: Vec<String>) -> Result<()> {
        let dir = self.dir.path().join(format!("server-{node}"));
        let data = dir.join("data");
        fs::create_dir_all(&data)?;
        if node > 0 {
            copy_keys(&self.dir.path().join("server-0/data/pki"), &data)?;
        }
        // Each server begins with the member of the next node, so that a partition between nodes is one between a server and
        // its etcd, too.
        let members: Vec<String> = (1..=NODES)
            .map(|next| member::client_url((node + next) % NODES))
            .collect();
        let address = network::address(node);
        let etcd = [
            "--etcd-servers",
            &members.join(","),
            "--etcd-compaction-interval",
            "1m",
            "--advertise-address",
            &address,
        ];
        let mut launch = Launch::new(&args.start, &dir, &data);
        launch.wrapper = [["nsenter".to_owned()].as_slice(), &self.network.wrapper(node)].concat();
        launch.address.clone_from(&address);
        launch.port = PORT;
        launch.flags = etcd.map(str::to_owned).into_iter().chain(flags).collect();
        let process = Process::launch(launch)?;
        self.endpoints.push(process.endpoint()?.with_timeout(TIMEOUT));
        self.servers.push(Mutex::new(process));
        Ok(())
    }

    /// The node of etcd's leader.
    pub(crate) fn leader(&self) -> Result<usize> {
        let running = (0..NODES).filter(|node| self.members[*node].lock().is_running());
        let mut leaders = running.filter(|node| member::is_leader(*node).unwrap_or(false));
        leaders.next().context("etcd has no leader")
    }

    pub(crate) fn session(&self, server: usize) -> Session {
        Session::new(&self.endpoints[server], ADMIN)
    }

    pub(crate) fn start_member(&self, node: usize) -> Result<()> {
        let mut member = self.members[node].lock();
        match member.is_running() {
            true => Ok(()),
            false => member.start(&self.network, NODES),
        }
    }

    pub(crate) fn start_server(&self, node: usize, options: &StartOptions) -> Result<()> {
        let mut server = self.servers[node].lock();
        server.kill()?;
        server.spawn(options)
    }

    /// Continues all processes that are stopped.
    pub(crate) fn resume(&self) {
        for node in 0..NODES {
            // A process that was killed since has nothing to continue.
            let _ = self.members[node].lock().signal(Signal::CONT);
            let _ = self.servers[node].lock().signal(Signal::CONT);
        }
    }

    /// Waits until each server executes consistent reads. Returns how long it took.
    pub(crate) fn wait_until_ready(&self) -> Result<Duration> {
        let started = now();
        for server in 0..NODES {
            let mut session = self.session(server);
            wait(&format!("server {server}"), || {
                let is_running = self.servers[server].lock().is_running();
                ensure!(
                    is_running,
                    "it has ended: {}",
                    self.servers[server].lock().log_end()
                );
                session.read("/api/v1/namespaces/default").map(drop)
            })?;
        }
        Ok(started.elapsed())
    }
}

/// The CAs and the keys of a server, without its own certificate.
fn copy_keys(from: &Path, data: &Path) -> Result<()> {
    let copied = Command::new("cp").arg("-rp").arg(from).arg(data).status()?;
    ensure!(copied.success(), "cannot copy {}", from.display());
    for own in ["server.crt", "server.key"] {
        let path = data.join("pki").join(own);
        if path.exists() {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Waits for a condition. The error is that of the last attempt.
pub(crate) fn wait(what: &str, mut attempt: impl FnMut() -> Result<()>) -> Result<()> {
    let started = now();
    loop {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(error) if started.elapsed() > RECOVERY => {
                bail!("{what} was not there after {} s: {error:#}", RECOVERY.as_secs())
            }
            Err(_) => sleep(POLL),
        }
    }
}
