//! `run`: a program of somebody else against a server of our own.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use setpoint_conformance::server::Server;

use crate::args::Run;

/// As a person starts it: with controllers and a node.
const WHOLE: &[&str] = &["--memory"];

pub(crate) fn run(args: &Run) -> Result<bool> {
    let server = Server::start(&args.start, WHOLE)?;
    let (program, rest) = args.command.split_first().context("clap asks for a program")?;
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
