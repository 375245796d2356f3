//! The command line, and the only place that parses it.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Benchmarks of Setpoint: JSON lines on standard output, a summary with goals on standard error.
#[derive(Debug, Parser)]
#[command(name = "setpoint-bench", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The store against bare loops on the same disk.
    Store(StoreArgs),
    /// The whole server over HTTPS against a server that does nothing.
    Api(ApiArgs),
    /// The controllers at work in the whole server: a large rollout, large deletions, and nothing at all.
    Controllers(ControllersArgs),
    /// The server that does nothing: a child of `api`.
    #[command(hide = true)]
    NullServer(NullServerArgs),
    /// Loads a store and prints its memory: a child of `store`.
    #[command(hide = true)]
    StoreMemory(StoreMemoryArgs),
}

/// `setpoint-bench store`.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// Where to write. It must be on the disk to be measured, not in memory.
    #[arg(long, default_value = "target/bench-data")]
    pub(crate) dir: PathBuf,
    /// How many times each pair of baseline and store is run in turns; medians are reported.
    #[arg(long, default_value_t = 7)]
    pub(crate) rounds: usize,
    /// Fewer operations and three rounds: for a look, not for a claim.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these measurements (comma separated): writers, one, snapshot, scan, reopen, memory.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

/// `setpoint-bench api`.
#[derive(Debug, clap::Args)]
pub(crate) struct ApiArgs {
    /// The server's binary; by default the file `setpoint` beside this program.
    #[arg(long)]
    pub(crate) setpoint: Option<PathBuf>,
    /// Where the servers keep their data. It must be on the disk to be measured, not in memory.
    #[arg(long, default_value = "target/bench-data")]
    pub(crate) dir: PathBuf,
    /// How many times each workload and its baseline are run in turns; medians are reported.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// Clients at once for the workloads that load the server.
    #[arg(long, default_value_t = 64)]
    pub(crate) clients: usize,
    /// Fewer operations and one round: for a look, not for a claim.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these workloads (comma separated): floor, start, write, forms, read, list, watch, counter, pods, crds.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

/// `setpoint-bench controllers`.
#[derive(Debug, clap::Args)]
pub(crate) struct ControllersArgs {
    /// The server's binary; by default the file `setpoint` beside this program.
    #[arg(long)]
    pub(crate) setpoint: Option<PathBuf>,
    /// Where the servers keep their data. It must be on the disk to be measured, not in memory.
    #[arg(long, default_value = "target/bench-data")]
    pub(crate) dir: PathBuf,
    /// How long the idle cluster is watched.
    #[arg(long, default_value_t = 600)]
    pub(crate) idle_seconds: u64,
    /// A tenth of the objects: for a look, not for a claim.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these workloads (comma separated): rollout, namespace, collection, idle.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

/// `setpoint-bench null-server`.
#[derive(Debug, clap::Args)]
pub(crate) struct NullServerArgs {
    /// Where to write the kubeconfig that leads to it.
    #[arg(long)]
    pub(crate) kubeconfig: PathBuf,
}

/// `setpoint-bench store-memory`.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreMemoryArgs {
    /// The store's directory.
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// How many keys to put; without it the store is only opened.
    #[arg(long)]
    pub(crate) keys: Option<u64>,
}

/// Whether a measurement of this name was asked for: all are, unless some were named.
pub(crate) fn wanted(only: &[String], name: &str) -> bool {
    only.is_empty() || only.iter().any(|asked| asked == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(only: &[&str], name: &str, expected: bool) {
        let only: Vec<String> = only.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(wanted(&only, name), expected);
    }

    #[test]
    fn everything_is_wanted_when_nothing_is_named() {
        check(&[], "scan", true);
    }

    #[test]
    fn only_the_named_are_wanted() {
        check(&["scan", "one"], "scan", true);
        check(&["scan", "one"], "reopen", false);
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
