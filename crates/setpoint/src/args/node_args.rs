//! The flags of `setpoint node`.

use std::path::PathBuf;

use super::AgentFlags;

/// Runs nodes of a cluster that another process serves.
#[derive(Debug, clap::Args)]
pub(crate) struct Node {
    /// Path to the kubeconfig of the agent [default: $KUBECONFIG or ~/.kube/config].
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// The number of nodes, which is 1 with a container runtime.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub nodes: u32,
    /// The prefix of the names of simulated nodes.
    #[arg(long, value_name = "PREFIX", default_value = "node")]
    pub node_prefix: String,
    #[command(flatten)]
    pub agent_flags: AgentFlags,
}
