//! Network namespaces of the nodes, each with a link to the namespace of this process, which forwards between them.
//!
//! They have no names: they end with this process, and so does everything that runs in them, since it is the first process of
//! a process namespace (see [`isolate`]).

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The preference of the routing rules that cut nodes off.
const CUT: &str = "1000";

/// The nodes and their links.
#[derive(Debug)]
pub(crate) struct Network {
    /// A process per node, which holds the namespace of the node.
    holders: Vec<Child>,
}

/// Replaces this process by the same program with the same arguments and one more, in a network and a process namespace of
/// its own. Returns only if that fails.
pub(crate) fn isolate(argument: &str) -> Result<()> {
    let mut command = unshare();
    command.arg(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).arg(argument);
    Err(command.exec()).context("start `unshare`")
}

/// Why this process may not make namespaces, if it may not.
pub(crate) fn check_isolation() -> Result<()> {
    let output = unshare().arg("true").output().context("start `unshare`")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", error.trim());
    let output = Command::new("ip").arg("-V").output();
    ensure!(
        output.is_ok_and(|output| output.status.success()),
        "`ip` is not installed"
    );
    Ok(())
}

/// Without root, a user namespace is made, too, if the system allows that.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command
}

impl Network {
    /// Makes so many nodes.
    pub(crate) fn start(nodes: usize) -> Result<Self> {
        ip(&["link", "set", "lo", "up"])?;
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("forward between the nodes")?;
        let mut network = Self { holders: Vec::new() };
        for node in 0..nodes {
            network.add(node)?;
        }
        Ok(network)
    }

    fn add(&mut self, node: usize) -> Result<()> {
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo ready; exec sleep infinity"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = holder.stdout.take().context("the output is piped")?;
        BufReader::new(stdout).read_line(&mut String::new())?;
        let pid = holder.id().to_string();
        self.holders.push(holder);
        let (link, gateway) = (link(node), gateway(node));
        ip(&[
            "link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &pid,
        ])?;
        ip(&["addr", "add", &format!("{gateway}/24"), "dev", &link])?;
        ip(&["link", "set", &link, "up"])?;
        let address = format!("{}/24", address(node));
        for arguments in [
            &["link", "set", "lo", "up"][..],
            &["addr", "add", &address, "dev", "eth0"],
            &["link", "set", "eth0", "up"],
            &["route", "add", "default", "via", &gateway],
        ] {
            run(self.command(node, Path::new("ip")).args(arguments))?;
        }
        Ok(())
    }

    /// A command that runs on a node. It replaces `nsenter`, so that its process is that of the program.
    pub(crate) fn command(&self, node: usize, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.args(self.wrapper(node)).arg(program);
        command
    }

    /// The arguments of `nsenter` for a node, before the program.
    pub(crate) fn wrapper(&self, node: usize) -> [String; 2] {
        let pid = self.holders[node].id();
        [format!("--net=/proc/{pid}/ns/net"), "--".to_owned()]
    }

    /// Takes the link of a node down: nothing reaches it.
    pub(crate) fn unplug(&self, node: usize) -> Result<()> {
        ip(&["link", "set", &link(node), "down"])
    }

    /// Drops what one node sends to another.
    pub(crate) fn cut(&self, from: usize, to: usize) -> Result<()> {
        let network = format!("10.99.{}.0/24", to + 1);
        let link = link(from);
        ip(&[
            "rule",
            "add",
            "iif",
            &link,
            "to",
            &network,
            "blackhole",
            "pref",
            CUT,
        ])
    }

    /// Restores all links.
    pub(crate) fn restore(&self) -> Result<()> {
        while ip(&["rule", "del", "pref", CUT]).is_ok() {}
        for node in 0..self.holders.len() {
            ip(&["link", "set", &link(node), "up"])?;
        }
        Ok(())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for holder in &mut self.holders {
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

/// The address of a node.
pub(crate) fn address(node: usize) -> String {
    format!("10.99.{}.2", node + 1)
}

fn gateway(node: usize) -> String {
    format!("10.99.{}.1", node + 1)
}

fn link(node: usize) -> String {
    format!("node{node}")
}

fn ip(arguments: &[&str]) -> Result<()> {
    run(Command::new("ip").args(arguments))
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", error.trim());
    Ok(())
}
