//! What the components in processes of their own share: the connection to the API server, discovery, the election of a
//! leader, and the log level.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use setpoint_api::Clock;
use setpoint_client::discovery::{self, ApiResource};
use setpoint_client::kubeconfig::Connection;
use setpoint_client::{Http, Kubeconfig};
use setpoint_runtime::leader::{self, Timing};
use tracing_subscriber::filter::LevelFilter;

use crate::args::LeaderElectionFlags;

/// How often an API server that does not respond is tried again, and the pause between. kube-controller-manager, too, waits
/// ten seconds for it and then exits.
const CONNECTION_TRIES: u32 = 10;
const CONNECTION_PAUSE: Duration = Duration::from_secs(1);

/// The connection of a kubeconfig file, or of the usual locations.
pub(crate) fn connection(kubeconfig: Option<&Path>) -> Result<Connection> {
    Ok(match kubeconfig {
        Some(path) => Kubeconfig::read(path)?.connection(None)?,
        None => Connection::infer()?,
    })
}

/// The resources that the API server serves, once it responds.
pub(crate) async fn discover(connection: &Connection, clock: &Arc<dyn Clock>) -> Result<Vec<ApiResource>> {
    let http = Http::new(connection)?;
    let mut tries = 1;
    loop {
        match discovery::discover(&http).await {
            Ok(served) => return Ok(served),
            Err(_) if tries < CONNECTION_TRIES => clock.sleep(CONNECTION_PAUSE).await,
            Err(status) => {
                return Err(status).with_context(|| format!("cannot reach {}", connection.server));
            }
        }
        tries += 1;
    }
}

/// The election by these flags; `None` if there is none.
pub(crate) fn election(flags: &LeaderElectionFlags, lease: &str) -> Result<Option<leader::Config>> {
    if !flags.leader_elect {
        return Ok(None);
    }
    let timing = Timing::try_new(
        flags.leader_elect_lease_duration,
        flags.leader_elect_renew_deadline,
        flags.leader_elect_retry_period,
    )?;
    let name = flags.leader_elect_resource_name.as_deref().unwrap_or(lease);
    Ok(Some(leader::Config {
        timing,
        ..leader::Config::new(&flags.leader_elect_resource_namespace, name, &identity())
    }))
}

/// The host's name and the number of the process: no other replica has both.
pub(crate) fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{}", host.trim(), std::process::id())
}

/// The log level of `--v`.
pub(crate) fn log_level(verbosity: u8) -> LevelFilter {
    match verbosity {
        0 | 1 => LevelFilter::WARN,
        2 | 3 => LevelFilter::INFO,
        4..=9 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}
