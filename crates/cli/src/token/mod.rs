//! `setpoint token`: bootstrap tokens, by which nodes join a cluster.
//!
//! `create` writes what kubeadm writes: the token, the roles by which its users may request a certificate that is then
//! approved, and the ConfigMap `kube-public/cluster-info`, by which a node finds the CA of the cluster. All of it is ordinary
//! API objects; those that exist are left alone.

mod create;
mod objects;

use anyhow::Result;
use clap::Subcommand;

/// The subcommands of `setpoint token`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a token, and print the command by which a node joins.
    Create(create::Args),
}

/// Runs a subcommand.
pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Create(args) => create::run(args),
    }
}
