//! `run`: an external test suite against a server that is started for it.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use setpoint_conformance::server::Server;

use crate::args::Run;

pub(crate) fn run(args: &Run) -> Result<bool> {
    // The default flags: with controllers and a node.
    let server = Server::start_on(args.etcd.as_deref(), &args.start, &[])?;
    let (program, rest) = args.command.split_first().context("clap requires a program")?;
    let status = Command::new(program)
        .args(rest)
        .env("KUBECONFIG", server.kubeconfig())
        .env("HOME", server.dir.path())
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("start {program}"))?;
    if !status.success() {
        eprint!("{}", server.log());
    }
    Ok(status.success())
}
