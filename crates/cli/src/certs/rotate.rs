//! `setpoint certs rotate`: replaces keys while what the old ones signed stays valid.

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use jiff::SignedDuration;
use setpoint_api::{Clock, SystemClock};
use setpoint_pki::{Rotation, rotate_authorities, service_account};

use super::pki_dir;

/// The arguments of `setpoint certs rotate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to rotate.
    #[arg(value_enum)]
    pub target: Target,
    /// The data directory.
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// How many days the old key of service account tokens verifies tokens. Tokens of pods are valid for at most a year;
    /// tokens that were requested for longer, and those in Secrets, need the key as long as they are used.
    #[arg(long, value_name = "DAYS", default_value_t = service_account::RETENTION.as_hours() / 24)]
    pub keep_days: i64,
}

/// What can be rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// The key that signs service account tokens.
    ServiceAccountKey,
    /// The cluster's CA and that of front proxies, in two steps: the first run creates the next CAs, which are trusted from
    /// then on; the second makes them sign.
    Ca,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let (pki, now) = (pki_dir(&args.data_dir)?, SystemClock::new().now());
    match args.target {
        Target::ServiceAccountKey => {
            let kept = SignedDuration::from_hours(args.keep_days.saturating_mul(24));
            service_account::rotate(&pki, kept, now)?;
            println!(
                "service-account.key rotated; the old key verifies tokens for {} days",
                args.keep_days
            );
        }
        Target::Ca => {
            for (file, step) in rotate_authorities(&pki, now)? {
                println!("{file}: {}", description(step));
            }
        }
    }
    println!("A running server uses the new files within a minute.");
    Ok(())
}

fn description(step: Rotation) -> &'static str {
    match step {
        Rotation::Created => {
            "the next CA was created and is trusted; distribute the new CA bundle, then run this command again"
        }
        Rotation::Promoted => "the next CA signs from now on; the previous one is trusted until it expires",
    }
}
