//! The store's benchmark: each measurement is interleaved with its baseline.
//!
//! `disk.rs` is the floor (a file and aligned durable writes), `append.rs` the two subjects that make entries durable
//! (a minimal group commit and the store), `writers.rs` their load. The other files are one
//! measurement each.

mod append;
mod disk;
pub(crate) mod memory;
mod one;
mod reopen;
mod scan;
mod snapshot;
mod subject;
mod writers;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::{
    args::{StoreArgs, is_selected},
    report::Report,
};

/// The parameters of all measurements.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Removed at the end.
    dir: TempDir,
    rounds: usize,
    quick: bool,
}

/// Runs the selected measurements and prints them.
pub(crate) fn run(args: &StoreArgs) -> Result<()> {
    let setting = Setting::prepare(args)?;
    let mut report = Report::default();
    report.begin("store")?;
    for (name, measure) in MEASUREMENTS {
        if is_selected(&args.only, name) {
            eprintln!("store: {name}");
            measure(&setting, &mut report).with_context(|| format!("measuring {name}"))?;
        }
    }
    report.finish();
    Ok(())
}

type Measure = fn(&Setting, &mut Report) -> Result<()>;

const MEASUREMENTS: &[(&str, Measure)] = &[
    ("writers", writers::measure),
    ("one", one::measure),
    ("snapshot", snapshot::measure),
    ("scan", scan::measure),
    ("reopen", reopen::measure),
    ("memory", memory::measure),
];

impl Setting {
    fn prepare(args: &StoreArgs) -> Result<Self> {
        ensure!(args.rounds > 0, "--rounds must be at least 1");
        std::fs::create_dir_all(&args.dir).with_context(|| format!("making {}", args.dir.display()))?;
        let dir = tempfile::Builder::new()
            .prefix("store-")
            .tempdir_in(&args.dir)
            .with_context(|| format!("making a directory in {}", args.dir.display()))?;
        let rounds = if args.quick {
            args.rounds.min(3)
        } else {
            args.rounds
        };
        Ok(Self {
            dir,
            rounds,
            quick: args.quick,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The full count, or a smaller one with `--quick`.
    fn full_or_quick(&self, full: u64, quick: u64) -> u64 {
        if self.quick { quick } else { full }
    }
}
