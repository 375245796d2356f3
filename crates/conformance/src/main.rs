//! `cargo run -p setpoint-conformance -- <command>`: compares a server with Kubernetes.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command prints to its user"
)]

mod args;
mod commands;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Replay(args) => commands::replay::run(&args),
        Command::Diff(args) => commands::diff::diff(&args),
        Command::Record(args) => commands::diff::record(&args),
        Command::Check(args) => commands::diff::check(&args),
        Command::Fuzz(args) => commands::fuzz::run(&args),
        Command::Mutate(args) => commands::mutate::run(&args),
        Command::Scheduling { command } => commands::scheduling::run(&command),
        Command::Run(args) => commands::run::run(&args),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("setpoint-conformance: {error:#}");
            ExitCode::from(2)
        }
    }
}
