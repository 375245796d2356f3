//! The binary: Kubernetes' API and control loops in one process.
//!
//! `args` parses the command line. `serve` is `setpoint up` and `setpoint test`: it builds the components, starts them and
//! waits. `scheduler` is `setpoint scheduler`, the scheduler alone; `controller_manager` is
//! `setpoint controller-manager`, the controllers alone; `nodes` is `setpoint node`, the node agent alone, and
//! `join` is `setpoint join`, the same with an identity by a bootstrap token. The other commands are in `setpoint_cli`. Under the names `kube-apiserver` and `etcd` the program is a control plane for test
//! suites (`kube_apiserver`, `etcd`); executed by a container runtime it is a CNI plugin (`setpoint_cni`). There is no logic
//! here beyond the configuration.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command prints to its user"
)]

mod args;
mod controller_manager;
mod etcd;
mod flag_set;
mod join;
mod kube_apiserver;
mod log;
mod nodes;
mod private_containerd;
mod remote;
mod resident_memory;
mod scheduler;
mod serve;
mod simulation_file;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use setpoint_apiserver::version::Version;
use setpoint_cli::{certs, envtest, explain_scheduling, new, store, template, token, tree, version};
use setpoint_kudo::command as kudo;
use setpoint_kuttl::command as kuttl;
use setpoint_shell_operator::command as shell_operator;

use crate::args::{Args, Command};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if setpoint_cni::is_plugin_call() {
        return setpoint_cni::run();
    }
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let arguments: Vec<String> = words.collect();
    match Path::new(&program).file_name().and_then(|name| name.to_str()) {
        Some("kube-apiserver") => kube_apiserver::run(&arguments),
        Some("etcd") => etcd::run(&arguments),
        Some("kubectl-kudo") => {
            let words = ["setpoint", "kudo"].map(str::to_owned).into_iter();
            setpoint(Args::parse_from(words.chain(arguments)))
        }
        _ => setpoint(Args::parse()),
    }
}

fn setpoint(args: Args) -> ExitCode {
    let outcome = match args.command {
        Command::Up(up) => serve::run(*up),
        Command::Apiserver(args) => serve::run(args.0),
        Command::ControllerManager(args) => controller_manager::run(*args),
        Command::Scheduler(args) => scheduler::run(*args),
        Command::Test(args) => match serve::test(&args) {
            Ok(code) => return ExitCode::from(code),
            Err(error) => Err(error),
        },
        Command::Node(args) => nodes::run(&args),
        Command::Join(args) => join::run(&args),
        Command::Token { command } => token::run(&command),
        Command::Store { command } => store::run(&command),
        Command::Certs { command } => certs::run(&command),
        Command::New { command } => new::run(&command),
        Command::Envtest { command } => envtest::run(&command),
        Command::ShellOperator { command } => shell_operator::run(command),
        Command::Kudo { command, settings } => kudo::run(command, &settings),
        Command::Kuttl { command } => kuttl::run(command),
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
