//! The disk of the data directory is filled and freed again.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use rand::rngs::StdRng;
use serde_json::json;
use setpoint_conformance::time::{now, sleep};
use setpoint_conformance::wire::Request;

use super::{Injection, POLL, restart};
use crate::objects::{self, JSON};
use crate::process::StartOptions;
use crate::soak::{ADMIN, Soak};

const DISK_SIZE: &str = "size=320m";
const BLOCK_BYTES: usize = 1 << 20;
const LARGE_BYTES: usize = 900_000;
const LARGE_WRITES: usize = 400;
const LARGE: &str = "large";
/// How long the server may take to notice that there is free space again, before it is restarted.
const NOTICE: Duration = Duration::from_secs(15);

/// The file system of the data directory: one of its own, so that it can be filled.
#[derive(Debug)]
pub(crate) struct Disk {
    path: PathBuf,
}

impl Disk {
    /// Mounts a file system in memory. Only root may.
    pub(crate) fn mount(path: &Path) -> Result<Self> {
        ensure!(
            rustix::process::geteuid().is_root(),
            "only root can mount a file system"
        );
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", DISK_SIZE, "tmpfs"])
            .arg(path)
            .output()?;
        let error = String::from_utf8_lossy(&mount.stderr).trim().to_owned();
        ensure!(mount.status.success(), "cannot mount a file system: {error}");
        Ok(Self {
            path: path.to_owned(),
        })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

pub(super) fn inject(soak: &Soak<'_>, _: &mut StdRng) -> Result<Injection> {
    let data = soak.process.lock().data.clone();
    if let Some(reason) = &soak.without_disk {
        return Ok(Injection::Skipped(reason.clone()));
    }
    let filler = data.join("filler");
    fill(&filler)?;
    use_allocated_space(soak)?;
    sleep(soak.args.fault_duration());
    fs::remove_file(&filler)?;
    let started = now();
    while started.elapsed() < NOTICE {
        if !soak.process.lock().is_running() {
            let log = soak.process.lock().log_end();
            soak.violation(format!("a full disk has ended the server: {log}"));
            break;
        }
        if is_writable(soak) {
            return Ok(Injection::Recovered(started.elapsed()));
        }
        sleep(POLL);
    }
    println!("  the server did not notice that there is free space again; it is restarted");
    restart(soak, &StartOptions::default())?;
    Ok(Injection::Recovered(started.elapsed()))
}

/// Writes a file until the disk is full.
fn fill(path: &Path) -> Result<()> {
    let mut file = File::create(path)?;
    let block = vec![0; BLOCK_BYTES];
    while file.write_all(&block).is_ok() {}
    Ok(())
}

/// Writes large objects until the server has used the space that it has allocated in advance.
fn use_allocated_space(soak: &Soak<'_>) -> Result<()> {
    let mut session = soak.session(ADMIN);
    let first = objects::config_map(LARGE, "", false);
    session.send(&objects::post(&objects::collection("default"), &first))?;
    for number in 0..LARGE_WRITES {
        let value = format!("{number} {}", "x".repeat(LARGE_BYTES));
        let mut map = objects::config_map(LARGE, &value, false);
        map["metadata"]["labels"] = json!({});
        let path = objects::path("default", LARGE);
        let request = Request::new("PUT", &path).body(JSON, map.to_string());
        if session.send(&request)?.status >= 500 {
            return Ok(());
        }
    }
    bail!("the server accepted {LARGE_WRITES} writes of {LARGE_BYTES} bytes to a full disk")
}

/// Whether a write is accepted.
fn is_writable(soak: &Soak<'_>) -> bool {
    let path = objects::path("default", "kube-root-ca.crt");
    let patch = json!({"metadata": {"annotations": {"soak": format!("{:?}", now())}}});
    let request = Request::new("PATCH", &path).body("application/merge-patch+json", patch.to_string());
    let request = request.header("Accept", JSON);
    let response = soak.session(ADMIN).send(&request);
    response.is_ok_and(|response| response.status < 300)
}
