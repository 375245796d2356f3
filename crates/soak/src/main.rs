//! `cargo xtask soak --minutes N`: a server as a child process under a mixed load and a schedule of faults.
//!
//! Writers, watchers, a controller built with the library and a user who only reads run all the time (`load`). One fault
//! after another is injected (`faults`): the process is killed or stopped, the disk is full, clients are slow or malicious.
//! After each one the load pauses and the invariants are checked (`checkpoint`): nothing acknowledged is lost, revisions
//! never go back, watches have no gaps, memory and the latency of other users are bounded.
//!
//! With `--floods` it measures instead what one user notices of another's expensive requests (`floods`). With `--etcd` it runs
//! three servers on three etcd members under faults of both (`etcd`), and judges what the clients saw (`linearizability`).
//!
//! A development tool: it reaches the server over HTTP only. Start reading at `run.rs`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command prints to its user"
)]

mod args;
mod checkpoint;
mod control;
mod etcd;
mod faults;
mod floods;
mod linearizability;
mod load;
mod objects;
mod process;
mod report;
mod run;
mod session;
mod soak;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let outcome = match (&args.floods, args.etcd) {
        (Some(names), _) => floods::run(&args, names),
        (None, Some(scenario)) => etcd::run(&args, scenario),
        (None, None) => run::run(&args),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("setpoint-soak: {error:#}");
            ExitCode::from(2)
        }
    }
}
