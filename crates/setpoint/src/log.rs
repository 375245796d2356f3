//! The process log: `tracing` events, written to standard error.

use std::ffi::OsStr;
use std::io::{self, IsTerminal};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::LogFormat;

/// Starts the log. `RUST_LOG` selects targets and levels (`info,setpoint_store=debug`); the default level is warn, or
/// error if `quiet`.
pub(crate) fn start(format: LogFormat, quiet: bool) {
    start_at(
        format,
        if quiet {
            LevelFilter::ERROR
        } else {
            LevelFilter::WARN
        },
    );
}

/// Starts the log with another default level.
pub(crate) fn start_at(format: LogFormat, default: LevelFilter) {
    let targets = std::env::var("RUST_LOG")
        .ok()
        .and_then(|text| text.parse::<Targets>().ok());
    let targets = targets.unwrap_or_else(|| Targets::new().with_default(default));
    let has_colors = has_colors(
        io::stderr().is_terminal(),
        std::env::var_os("NO_COLOR").as_deref(),
    );
    let events = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(has_colors);
    let registry = tracing_subscriber::registry().with(targets);
    match format {
        LogFormat::Text => registry.with(events).init(),
        LogFormat::Json => registry.with(events.json()).init(),
    }
}

/// Whether lines are coloured: on a terminal, unless the user declines by `NO_COLOR` (<https://no-color.org>).
fn has_colors(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_has_colours_and_only_if_its_user_wants_them() {
        assert!(has_colors(true, None) && has_colors(true, Some(OsStr::new(""))));
        assert!(!has_colors(true, Some(OsStr::new("1"))));
        assert!(!has_colors(false, None));
    }
}
