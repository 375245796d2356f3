//! Memory of a store with 100,000 keys of 1 KB, measured in a process that does nothing else.
//!
//! Twice: in the process that wrote them, and in one that only opened the store.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::{Setting, subject};
use crate::{
    args::StoreMemoryArgs,
    processes::memory,
    report::{Goal, Measurement, Report},
};

/// What the child prints.
#[derive(Debug, Serialize, Deserialize)]
struct Footprint {
    before: u64,
    after: u64,
    keys: u64,
}

pub(crate) fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let dir = setting.path("memory");
    add(
        report,
        "memory_per_key_written",
        &child(&dir, Some(subject::KEYS))?,
    );
    add(report, "memory_per_key_reopened", &child(&dir, None)?);
    Ok(())
}

fn child(dir: &Path, keys: Option<u64>) -> Result<Footprint> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(program);
    command.arg("store-memory").arg("--dir").arg(dir);
    if let Some(keys) = keys {
        command.arg("--keys").arg(keys.to_string());
    }
    let output = command
        .output()
        .context("starting the child that loads a store")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "the child that loads a store failed: {errors}"
    );
    serde_json::from_slice(&output.stdout).context("reading what the child measured")
}

fn add(report: &mut Report, name: &str, footprint: &Footprint) {
    let per_key = footprint.after.saturating_sub(footprint.before) as f64 / footprint.keys as f64;
    let bound = subject::VALUE_BYTES as f64 * 1.25 + 250.0;
    report.add(
        Measurement::new("store", name, per_key, "B")
            .against(subject::VALUE_BYTES as f64)
            .operations(footprint.keys)
            .goal(Goal::AtMost(bound)),
    );
}

/// The child's whole life: memory before, load or open, memory after.
pub(crate) fn run_child(args: &StoreMemoryArgs) -> Result<()> {
    let pid = std::process::id();
    let before = memory(pid)?.resident;
    let store = subject::open(&args.dir)?;
    subject::load(&store, args.keys.unwrap_or(0))?;
    let after = memory(pid)?.resident;
    let footprint = Footprint {
        before,
        after,
        keys: store.metrics().index_keys,
    };
    println!(
        "{}",
        serde_json::to_string(&footprint).context("printing the footprint")?
    );
    Ok(())
}
