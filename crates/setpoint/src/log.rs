//! The log of the process: where `tracing` goes.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;

/// Starts writing the log to standard error. `RUST_LOG` decides what is written; otherwise warnings, or errors if quiet.
pub(crate) fn start(format: LogFormat, quiet: bool) {
    let usual = if quiet { "error" } else { "warn" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}
