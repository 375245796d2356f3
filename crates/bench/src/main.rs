//! Measures Setpoint against baselines taken in the same run on the same machine.
//!
//! A figure here is only worth something beside its floor, so every measurement of the store runs in turns with a
//! bare loop that does the least possible on the same disk, and every measurement of the API with a server that
//! answers a fixed body over the same TLS stack. JSON lines go to standard output, one object per measurement; a
//! summary with the goals goes to standard error.
//!
//! This room must never be depended on by another crate, and never talks to anything but the loopback interface.
//! Start reading at [`store::run`] for the store, at [`api::run`] for the server and at [`controllers::run`] for what runs
//! beside it. `docs/performance.md` says what
//! each line means.

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
mod null_server;
mod processes;
mod report;
mod statistics;
mod store;
mod turns;

use clap::Parser;

use crate::args::{Args, Command};

/// The server's allocator, so that memory figures of the store speak for the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Store(args) => store::run(&args),
        Command::Api(args) => api::run(&args),
        Command::Controllers(args) => controllers::run(&args),
        Command::NullServer(args) => null_server::run(&args),
        Command::StoreMemory(args) => store::memory::run_child(&args),
    }
}
