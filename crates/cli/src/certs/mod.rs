//! `setpoint certs`: list, renew and rotate the certificates and keys of a cluster.
//!
//! The commands work on the files of a data directory, also while a server runs on it: the server reads them again within
//! a minute.

mod check;
mod renew;
mod rotate;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Subcommand;

/// The subcommands of `setpoint certs`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List certificates and keys, and fail if one expires soon.
    Check(check::Args),
    /// Renew the server and client certificates that the server has issued.
    Renew(renew::Args),
    /// Rotate the keys of service account tokens, or the CAs.
    Rotate(rotate::Args),
}

/// Runs a subcommand.
pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Check(args) => check::run(args),
        Command::Renew(args) => renew::run(args),
        Command::Rotate(args) => rotate::run(args),
    }
}

/// The directory of certificates and keys in a data directory.
fn pki_dir(data_dir: &Path) -> Result<PathBuf> {
    let dir = data_dir.join("pki");
    ensure!(dir.is_dir(), "no certificates found in {}", dir.display());
    Ok(dir)
}
