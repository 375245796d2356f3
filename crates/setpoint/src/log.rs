//! The process log: `tracing` events, written to standard error.

use std::io;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::LogFormat;

/// Starts the log. `RUST_LOG` selects targets and levels (`info,setpoint_store=debug`); the default level is warn, or
/// error if `quiet`.
pub(crate) fn start(format: LogFormat, quiet: bool) {
    let default = if quiet {
        LevelFilter::ERROR
    } else {
        LevelFilter::WARN
    };
    let targets = std::env::var("RUST_LOG")
        .ok()
        .and_then(|text| text.parse::<Targets>().ok());
    let targets = targets.unwrap_or_else(|| Targets::new().with_default(default));
    let events = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let registry = tracing_subscriber::registry().with(targets);
    match format {
        LogFormat::Text => registry.with(events).init(),
        LogFormat::Json => registry.with(events.json()).init(),
    }
}
