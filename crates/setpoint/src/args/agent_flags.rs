//! Flags of an agent that is a process of its own, for `setpoint node` and `setpoint join`.

use std::path::PathBuf;
use std::time::Duration;

use super::{NodeFlags, duration};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AgentFlags {
    /// The port on which the API server reaches the agent, for logs and streams of containers.
    #[arg(long, value_name = "PORT", default_value_t = 10250)]
    pub port: u16,
    /// The CA bundle of clients of that port, PEM [default: the CA of the API server].
    #[arg(long, value_name = "PATH")]
    pub client_ca_file: Option<PathBuf>,
    /// Terminate the pods of the node, within this time, before the agent ends; 0 leaves them running.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub shutdown_grace_period: Duration,
    /// The part of that time for critical pods, which end last.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub shutdown_grace_period_critical_pods: Duration,
    #[command(flatten)]
    pub node_flags: NodeFlags,
}
