//! The binary: Kubernetes' API and control loops in one process.
//!
//! `args` parses the command line. `serve` is `setpoint up` and `setpoint test`: it builds the components, starts them and
//! waits. The other commands are in `setpoint_cli`. Under the names `kube-apiserver` and `etcd` the program is a control
//! plane for test suites (`kube_apiserver`, `etcd`). There is no logic here beyond the configuration.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command prints to its user"
)]

mod args;
mod etcd;
mod flag_set;
mod kube_apiserver;
mod log;
mod serve;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use setpoint_apiserver::version::Version;
use setpoint_cli::{certs, envtest, explain_scheduling, new, store, template, tree, version};

use crate::args::{Args, Command};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let arguments: Vec<String> = words.collect();
    match Path::new(&program).file_name().and_then(|name| name.to_str()) {
        Some("kube-apiserver") => kube_apiserver::run(&arguments),
        Some("etcd") => etcd::run(&arguments),
        _ => setpoint(),
    }
}

fn setpoint() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Up(up) => serve::run(*up),
        Command::Test(args) => match serve::test(&args) {
            Ok(code) => return ExitCode::from(code),
            Err(error) => Err(error),
        },
        Command::Store { command } => store::run(&command),
        Command::Certs { command } => certs::run(&command),
        Command::New { command } => new::run(&command),
        Command::Envtest { command } => envtest::run(&command),
        Command::Template(args) => template::run(&args),
        Command::Tree(args) => tree::run(&args),
        Command::ExplainScheduling(args) => explain_scheduling::run(&args),
        Command::Version(args) => version::run(&args, &Version::client()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
