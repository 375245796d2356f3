//! `setpoint certs renew`: issues the server and client certificates again.

use std::path::PathBuf;

use anyhow::Result;
use setpoint_api::{Clock, SystemClock};

use super::pki_dir;

/// The arguments of `setpoint certs renew`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The data directory.
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let renewed = setpoint_pki::renew_certificates(&pki_dir(&args.data_dir)?, SystemClock::new().now())?;
    for file in renewed {
        println!("{file} renewed");
    }
    println!("A running server uses them, and renews the kubeconfig, within a minute.");
    Ok(())
}
