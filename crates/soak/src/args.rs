//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Runs a server under load and faults, and checks that it loses nothing.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The server program.
    #[arg(long, value_name = "PATH")]
    pub(crate) start: PathBuf,
    /// How long to run.
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    pub(crate) minutes: f64,
    /// The seed of the load and of the order of faults.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Instead of faults and load, run these floods, each on a server of its own: one user sends expensive requests while
    /// another is measured [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', num_args = 0..)]
    pub(crate) floods: Option<Vec<String>>,
    /// Instead, run three servers on three etcd members in network namespaces: `histories` records what clients see
    /// under faults of both and checks that it is linearizable; `rollout` stops the leader of the controllers while
    /// a Deployment of 1,000 pods is rolled out [default: histories].
    #[arg(long, value_name = "SCENARIO", num_args = 0..=1, default_missing_value = "histories", conflicts_with = "floods")]
    pub(crate) etcd: Option<Scenario>,
    /// The etcd program.
    #[arg(long, value_name = "PATH", default_value = "etcd")]
    pub(crate) etcd_program: PathBuf,
    /// Set once this process has namespaces of its own.
    #[arg(long, hide = true)]
    pub(crate) isolated: bool,
    /// The duration of each flood.
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub(crate) seconds: u64,
    /// The faults to inject [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) faults: Vec<String>,
    /// The resident memory that the server may use.
    #[arg(long, value_name = "MB", default_value_t = 768)]
    pub(crate) max_memory: u64,
    /// The 99th percentile that the latency of other users may reach while the server is up.
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    pub(crate) max_p99: u64,
}

/// What is run on servers that share an etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    Histories,
    Rollout,
}

impl Args {
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.minutes.max(0.0) * 60.0)
    }

    /// The duration of a fault: shorter in a short run. It is less than the minute for which clients wait for a response,
    /// so that no request is executed after its client has given up.
    pub(crate) fn fault_duration(&self) -> Duration {
        (self.duration() / 60).clamp(Duration::from_secs(2), Duration::from_secs(55))
    }
}
