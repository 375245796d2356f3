//! Log lines of a run, in the form of `go test -v`, which tools that read KUTTL's output expect.

#![allow(clippy::print_stdout, reason = "the output of a test run is for its user")]

use std::sync::Arc;

use setpoint_api::Clock;

/// A logger with the prefix of a case or a step.
#[derive(Debug, Clone)]
pub(crate) struct Logger {
    clock: Arc<dyn Clock>,
    prefix: String,
}

impl Logger {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let prefix = String::new();
        Self { clock, prefix }
    }

    /// The same logger with a further prefix.
    pub(crate) fn with_prefix(&self, prefix: &str) -> Self {
        let prefix = match self.prefix.is_empty() {
            true => prefix.to_owned(),
            false => format!("{}/{prefix}", self.prefix),
        };
        let clock = self.clock.clone();
        Self { clock, prefix }
    }

    /// Prints a message, each of its lines with the time and the prefix.
    pub(crate) fn log(&self, message: impl AsRef<str>) {
        let now = self.clock.now().strftime("%H:%M:%S").to_string();
        for line in message.as_ref().trim_end().lines() {
            println!("    logger.go:42: {now} | {} | {line}", self.prefix);
        }
    }

    /// Prints a line without the prefix.
    pub(crate) fn print(&self, line: impl AsRef<str>) {
        println!("{}", line.as_ref());
    }
}
