//! The arguments of `setpoint scheduler`: the most used flags of kube-scheduler, with its names and defaults.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::{LeaderElectionFlags, LogFormat};

/// Schedules the pods of any Kubernetes API server, in a process of its own.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Scheduler {
    /// Path to the kubeconfig file of the API server [default: that of the configuration, then $KUBECONFIG,
    /// ~/.kube/config, and the service account of a pod].
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// The path to a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1). Its `leaderElection` and
    /// `clientConnection` take precedence over the flags.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The IP address and port on which to serve /healthz, /readyz and /metrics over plain HTTP. Port 0 selects a free
    /// port. By default they are not served.
    #[arg(long, value_name = "ADDR:PORT")]
    pub probe_address: Option<SocketAddr>,
    /// The number for the log level verbosity: 0 for warnings, 2 for information, 4 for debugging. RUST_LOG takes precedence.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    pub verbosity: u8,
    /// The log format.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    #[command(flatten)]
    pub leader_election: LeaderElectionFlags,
}
