//! Measures Setpoint against baselines taken in the same run on the same machine.
//!
//! A measurement is meaningful only relative to its floor, so every measurement of the store is interleaved with a minimal
//! loop on the same disk, and every measurement of the API with a null server that sends a fixed body over the same TLS
//! stack. JSON lines go to standard output, one object per measurement; a summary with the goals goes to standard error.
//!
//! No other crate may depend on this one, and it connects to the loopback interface only. Start reading at [`store::run`]
//! for the store, at [`api::run`] for the server, at [`controllers::run`] for the controllers, at [`scheduling::run`] for
//! the scheduler, at [`hooks::run`] for hook programs, at [`etcd::run`] for a server on etcd and at [`node::run`] for the node
//! agent. `docs/performance.md` describes each line.

#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark reads the machine's own clocks; nothing here is simulated"
)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the report is this program's output"
)]

mod api;
mod args;
mod controllers;
mod etcd;
mod hooks;
mod node;
mod null_server;
mod paired_rounds;
mod processes;
mod report;
mod scheduling;
mod statistics;
mod store;

use clap::Parser;

use crate::args::{Args, Command};

/// The server's allocator, so that memory measurements of the store are valid for the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Store(args) => store::run(&args),
        Command::Api(args) => api::run(&args),
        Command::Controllers(args) => controllers::run(&args),
        Command::Scheduling(args) => scheduling::run(&args),
        Command::Hooks(args) => hooks::run(&args),
        Command::Etcd(args) => etcd::run(&args),
        Command::Node(args) => node::run(&args),
        Command::NullServer(args) => null_server::run(&args),
        Command::StoreMemory(args) => store::memory::run_child(&args),
    }
}
