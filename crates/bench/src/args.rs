//! The command line, parsed here and nowhere else.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Benchmarks of Setpoint: JSON lines on standard output, a summary with goals on standard error.
#[derive(Debug, Parser)]
#[command(name = "setpoint-bench", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The benchmark to run.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure the store, against a minimal log on the same disk.
    Store(StoreArgs),
    /// Measure the server over HTTPS, against a null server.
    Api(ApiArgs),
    /// Measure the controllers: a large rollout, large deletions, and an idle cluster.
    Controllers(ControllersArgs),
    /// Measure the scheduler: CPU time per pod from its creation to its binding, and of the binding alone.
    Scheduling(SchedulingArgs),
    /// Measure hook programs: `setpoint shell-operator` beside the real shell-operator.
    Hooks(HooksArgs),
    /// Measure the server on etcd, beside kube-apiserver on the same etcd.
    Etcd(EtcdArgs),
    /// Measure the node agent on a private containerd, against bare calls of the container runtime. Needs root.
    Node(NodeArgs),
    /// The null server, a child process of `api`.
    #[command(hide = true)]
    NullServer(NullServerArgs),
    /// Load a store and print its memory, a child process of `store`.
    #[command(hide = true)]
    StoreMemory(StoreMemoryArgs),
}

/// `setpoint-bench store`.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// The directory to write to. It must be on the disk to measure, not in memory.
    #[arg(long, default_value = "target/bench-data")]
    pub(crate) dir: PathBuf,
    /// The number of interleaved rounds of baseline and store. Medians are reported.
    #[arg(long, default_value_t = 7)]
    pub(crate) rounds: usize,
    /// Fewer operations and three rounds, for a rough measurement.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these measurements, comma-separated: writers, one, snapshot, scan, reopen, memory.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

/// `setpoint-bench api`.
#[derive(Debug, clap::Args)]
pub(crate) struct ApiArgs {
    /// The server's binary [default: the file `setpoint` beside this program].
    #[arg(long)]
    pub(crate) setpoint: Option<PathBuf>,
    /// The directory of the servers' data. It must be on the disk to measure, not in memory.
    #[arg(long, default_value = "target/bench-data")]
    pub(crate) dir: PathBuf,
    /// The number of interleaved rounds of workload and baseline. Medians are reported.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// The number of concurrent clients of the workloads that load the server.
    #[arg(long, default_value_t = 64)]
    pub(crate) clients: usize,
    /// Fewer operations and one round, for a rough measurement.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these workloads, comma-separated: floor, start, write, forms, read, list, watch, counter, pods, crds.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

/// `setpoint-bench controllers`.
#[derive(Debug, clap::Args)]
pub(crate) struct ControllersArgs {
    /// The server's binary [default: the file `setpoint` beside this program].
    #[arg(long)]
    pub(crate) setpoint: Option<PathBuf>,
    /// The directory of the servers' data. It must be on the disk to measure, not in memory.
    #[arg(long, default_value = "target/bench-data")]
    pub(crate) dir: PathBuf,
    /// The duration of the idle measurement.
    #[arg(long, default_value_t = 600)]
    pub(crate) idle_seconds: u64,
    /// A tenth of the objects, for a rough measurement.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these workloads, comma-separated: rollout, namespace, collection, idle.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

/// `setpoint-bench scheduling`.
#[derive(Debug, clap::Args)]
pub(crate) struct SchedulingArgs {
    /// The server's binary [default: the file `setpoint` beside this program].
    #[arg(long)]
    pub(crate) setpoint: Option<PathBuf>,
    /// The directory of the servers' data. It must be on the disk to measure, not in memory.
    #[arg(long, default_value = "target/bench-data")]
    pub(crate) dir: PathBuf,
    /// The numbers of nodes to measure with, comma-separated.
    #[arg(long, value_delimiter = ',', default_values_t = [5_000])]
    pub(crate) nodes: Vec<u64>,
    /// The numbers of pods to measure with, comma-separated.
    #[arg(long, value_delimiter = ',', default_values_t = [50_000])]
    pub(crate) pods: Vec<u64>,
    /// The numbers of parallel scheduling cycles to measure with, comma-separated; the scheduler has at most one for each
    /// processor [default: the scheduler's own].
    #[arg(long, value_delimiter = ',')]
    pub(crate) workers: Vec<u32>,
    /// A tenth of the nodes and pods, for a rough measurement.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these workloads, comma-separated: plain, anti-affinity, spread, preemption, churn, failover.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

/// `setpoint-bench hooks`.
#[derive(Debug, clap::Args)]
pub(crate) struct HooksArgs {
    /// The server's binary, which is also the operator under test [default: the file `setpoint` beside this program].
    #[arg(long)]
    pub(crate) setpoint: Option<PathBuf>,
    /// The real shell-operator, which runs in turns with ours. Without it there is no baseline.
    #[arg(long)]
    pub(crate) shell_operator: Option<PathBuf>,
    /// The directory of the servers' data.
    #[arg(long, default_value = "target/bench-data")]
    pub(crate) dir: PathBuf,
    /// The pods that the hooks watch.
    #[arg(long, default_value_t = 10_000)]
    pub(crate) pods: u64,
    /// The number of changes of a pod in each round, each of which starts fifty hooks.
    #[arg(long, default_value_t = 20)]
    pub(crate) events: u64,
    /// The number of rounds. Medians are reported.
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
}

/// `setpoint-bench etcd`.
#[derive(Debug, clap::Args)]
pub(crate) struct EtcdArgs {
    /// The server's binary [default: the file `setpoint` beside this program].
    #[arg(long)]
    pub(crate) setpoint: Option<PathBuf>,
    /// The kube-apiserver to compare with, of Kubernetes 1.37.
    #[arg(long)]
    pub(crate) kube_apiserver: PathBuf,
    /// The etcd that both store their objects in.
    #[arg(long, default_value = "etcd")]
    pub(crate) etcd: PathBuf,
    /// The directory of etcd's data. It must be on a disk, not in memory.
    #[arg(long, default_value = "target/bench-data")]
    pub(crate) dir: PathBuf,
    /// The number of rounds, after one that is not counted. Medians are reported.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// The number of concurrent clients.
    #[arg(long, default_value_t = 16)]
    pub(crate) clients: usize,
    /// Fewer operations and one round, for a rough measurement.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these measurements, comma-separated: requests, watch, start.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

/// `setpoint-bench node`.
#[derive(Debug, clap::Args)]
pub(crate) struct NodeArgs {
    /// The program's binary [default: the file `setpoint` beside this program].
    #[arg(long)]
    pub(crate) setpoint: Option<PathBuf>,
    /// The directory of all data. It must be on the disk to measure, not in memory.
    #[arg(long, default_value = "target/bench-data")]
    pub(crate) dir: PathBuf,
    /// The number of interleaved rounds of a pod and of bare calls. Medians are reported.
    #[arg(long, default_value_t = 20)]
    pub(crate) rounds: usize,
}

/// `setpoint-bench null-server`.
#[derive(Debug, clap::Args)]
pub(crate) struct NullServerArgs {
    /// The path to write its kubeconfig to.
    #[arg(long)]
    pub(crate) kubeconfig: PathBuf,
}

/// `setpoint-bench store-memory`.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreMemoryArgs {
    /// The store's directory.
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// The number of keys to put. If not set, the store is only opened.
    #[arg(long)]
    pub(crate) keys: Option<u64>,
}

/// Whether a measurement of this name is selected: all are, unless `--only` names some.
pub(crate) fn is_selected(only: &[String], name: &str) -> bool {
    only.is_empty() || only.iter().any(|selected| selected == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(only: &[&str], name: &str, expected: bool) {
        let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(is_selected(&only, name), expected);
    }

    #[test]
    fn everything_is_selected_by_default() {
        check(&[], "scan", true);
    }

    #[test]
    fn only_selects_the_named() {
        check(&["scan", "one"], "scan", true);
        check(&["scan", "one"], "reopen", false);
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
