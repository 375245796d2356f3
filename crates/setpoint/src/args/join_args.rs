//! The flags of `setpoint join`.

use std::path::PathBuf;

use super::AgentFlags;

/// Runs this machine as a node of a cluster, with an identity that it gets by a bootstrap token.
#[derive(Debug, clap::Args)]
pub(crate) struct Join {
    /// The URL of the API server, as in https://192.0.2.1:6443.
    #[arg(value_name = "URL")]
    pub server: String,
    /// The bootstrap token of `setpoint token create`. A node that has joined before needs none.
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
    /// The hash of the public key of the cluster's CA, as in sha256:1234.
    #[arg(long, value_name = "HASH", conflicts_with = "certificate_authority")]
    pub discovery_token_ca_cert_hash: Option<String>,
    /// The CA bundle of the cluster, PEM, instead of its hash.
    #[arg(long, value_name = "PATH")]
    pub certificate_authority: Option<PathBuf>,
    #[command(flatten)]
    pub agent_flags: AgentFlags,
}
