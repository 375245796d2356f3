//! The faults, one file each. Each one is injected, held for a while, and ended; when it returns the server is up.

mod bombs;
pub(crate) mod clock;
mod disk_full;
mod file_descriptors;
mod kill;
mod pause;
mod slow_clients;

use std::time::Duration;

use anyhow::{Result, bail};
use rand::rngs::StdRng;
use setpoint_conformance::time::{now, sleep};

use crate::process::StartOptions;
use crate::soak::{ADMIN, Soak};

pub(crate) use disk_full::Disk;

/// How long a server may take to start or to recover.
const RECOVERY: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// A fault that can be injected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    inject: fn(&Soak<'_>, &mut StdRng) -> Result<Injection>,
}

/// What became of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Injection {
    /// It was injected. The server took so long to recover.
    Recovered(Duration),
    /// It cannot be injected here.
    Skipped(String),
}

/// Every fault. A new one is a file and a row.
pub(crate) const ALL: &[Fault] = &[
    Fault::new("kill", kill::inject),
    Fault::new("pause", pause::inject),
    Fault::new("disk-full", disk_full::inject),
    Fault::new("file-descriptors", file_descriptors::inject),
    Fault::new("clock-jump", clock::inject),
    Fault::new("slow-clients", slow_clients::inject),
    Fault::new("yaml-aliases", bombs::yaml_aliases),
    Fault::new("quadratic-patch", bombs::quadratic_patch),
    Fault::new("crd-defaults", bombs::crd_defaults),
];

impl Fault {
    const fn new(name: &'static str, inject: fn(&Soak<'_>, &mut StdRng) -> Result<Injection>) -> Self {
        Self { name, inject }
    }

    pub(crate) fn inject(&self, soak: &Soak<'_>, random: &mut StdRng) -> Result<Injection> {
        (self.inject)(soak, random)
    }
}

/// Kills the server and starts it with these options. Returns how long it took until it was ready.
fn restart(soak: &Soak<'_>, options: &StartOptions) -> Result<Duration> {
    soak.set_up(false);
    let mut process = soak.process.lock();
    process.kill()?;
    let started = now();
    process.spawn(options)?;
    drop(process);
    wait_until_ready(soak)?;
    soak.set_up(true);
    Ok(started.elapsed())
}

/// Waits until the server is ready. Returns how long it took.
fn wait_until_ready(soak: &Soak<'_>) -> Result<Duration> {
    let started = now();
    let mut session = soak.session(ADMIN);
    while session.read("/readyz?verbose=false").is_err()
        && session.read("/api/v1/namespaces/default").is_err()
    {
        if !soak.process.lock().is_running() {
            bail!("the server has ended: {}", soak.process.lock().log_end());
        }
        if started.elapsed() > RECOVERY {
            bail!("the server is not ready after {} s", RECOVERY.as_secs());
        }
        sleep(POLL);
    }
    Ok(started.elapsed())
}
