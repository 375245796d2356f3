//! The clock of the machine jumps forwards and back. The time is set with libfaketime, if it is installed.

use std::fs;
use std::path::{Path, PathBuf};

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

/// The clock of a server that is started with these options. It jumps while the server runs.
#[derive(Debug)]
pub(crate) struct Jumps {
    file: PathBuf,
}

impl Jumps {
    /// A clock with the time of the machine. The file has its distance from that.
    pub(crate) fn new(file: &Path) -> Result<Self> {
        let jumps = Self {
            file: file.to_owned(),
        };
        jumps.jump(0)?;
        Ok(jumps)
    }

    pub(crate) fn options(&self) -> StartOptions {
        let file = self.file.display().to_string();
        options(&[
            ("FAKETIME_TIMESTAMP_FILE", file),
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
        ])
    }

    /// Sets the clock to so many minutes after the time of the machine. The server notices it within a second.
    pub(crate) fn jump(&self, minutes: i32) -> Result<()> {
        let next = self.file.with_extension("next");
        fs::write(&next, format!("{minutes:+}m\n"))?;
        Ok(fs::rename(next, &self.file)?)
    }
}

/// The library, if it is installed.
pub(crate) fn library() -> Option<&'static str> {
    LIBRARIES.into_iter().find(|path| Path::new(path).exists())
}

/// Each jump is a restart: the server reads its clock when it starts, too.
pub(super) fn inject(soak: &Soak<'_>, random: &mut StdRng) -> Result<Injection> {
    if library().is_none() {
        return Ok(Injection::Skipped("libfaketime is not installed".to_owned()));
    }
    let minutes = random.random_range(-50..=50);
    restart(soak, &options(&[("FAKETIME", format!("{minutes:+}m"))]))?;
    sleep(soak.args.fault_duration());
    Ok(Injection::Recovered(restart(soak, &StartOptions::default())?))
}

fn options(variables: &[(&str, String)]) -> StartOptions {
    let always = [
        ("LD_PRELOAD", library().unwrap_or_default().to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    let all = always.iter().chain(variables);
    StartOptions {
        environment: all
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect(),
        ..StartOptions::default()
    }
}
