//! The clock of the machine jumps forwards and back. The server reads it when it starts, so each jump is a restart; the
//! time is set with libfaketime, if it is installed.

use std::path::Path;

use anyhow::Result;
use rand::Rng;
use rand::rngs::StdRng;
use setpoint_conformance::time::sleep;

use super::{Injection, restart};
use crate::process::StartOptions;
use crate::soak::Soak;

const LIBRARIES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
    "/usr/local/lib/faketime/libfaketime.so.1",
];

/// The library, if it is installed.
pub(crate) fn library() -> Option<&'static str> {
    LIBRARIES.into_iter().find(|path| Path::new(path).exists())
}

pub(super) fn inject(soak: &Soak<'_>, random: &mut StdRng) -> Result<Injection> {
    if library().is_none() {
        return Ok(Injection::Skipped("libfaketime is not installed".to_owned()));
    }
    restart(soak, &jump(random))?;
    sleep(soak.args.fault_duration());
    Ok(Injection::Recovered(restart(soak, &StartOptions::default())?))
}

/// A start with another time than that of the machine: within the hour for which the server's certificates are backdated.
pub(crate) fn jump(random: &mut StdRng) -> StartOptions {
    let minutes = random.random_range(-50..=50);
    let variables = [
        ("LD_PRELOAD", library().unwrap_or_default().to_owned()),
        ("FAKETIME", format!("{minutes:+}m")),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    StartOptions {
        environment: variables.map(|(name, value)| (name.to_owned(), value)).into(),
        ..StartOptions::default()
    }
}
