//! The binary: Kubernetes' API and control loops in one process.
//!
//! `args` parses the command line; each command is a file. The main one is `serve` (`setpoint up`): it builds the
//! components, starts them and waits for them. There is no logic here beyond the configuration.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command prints to its user"
)]

mod args;
mod log;
mod metrics;
mod new;
mod remote;
mod serve;
mod store;
mod tree;
mod version;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command, NewCommand, StoreCommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Up(up) => serve::run(*up),
        Command::Store {
            command: StoreCommand::Verify(verify),
        } => store::verify(&verify),
        Command::Store {
            command: StoreCommand::Backup(backup),
        } => store::backup(&backup),
        Command::Store {
            command: StoreCommand::Restore(restore),
        } => store::restore(&restore),
        Command::New {
            command: NewCommand::Controller(controller),
        } => new::controller(&controller),
        Command::Tree(tree) => tree::run(&tree),
        Command::Version(version) => version::run(&version),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
