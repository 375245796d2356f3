//! The API's benchmark: the real binary as a child process, loaded over HTTPS by a load generator.
//!
//! `server.rs` starts and stops the servers (`setpoint`, and the null server as baseline),
//! `connection.rs` is a minimal HTTP/1.1 client, `load.rs` the closed-loop load, `request.rs` the pre-encoded requests. One file per workload in `workloads/`.
//!
//! The server's CPU time is the reliable measurement: generator and server share the machine, which reduces rates.

mod chunked;
pub(crate) mod connection;
mod endpoint;
pub(crate) mod load;
pub(crate) mod objects;
pub(crate) mod request;
pub(crate) mod server;
pub(crate) mod workloads;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::{
    args::{ApiArgs, is_selected},
    report::Report,
};

/// The number of concurrent clients of workloads that run once.
const SINGLE_ROUND_CLIENTS: usize = 16;

/// The parameters of all workloads.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Removed at the end.
    pub(crate) dir: TempDir,
    pub(crate) setpoint: PathBuf,
    pub(crate) rounds: usize,
    pub(crate) clients: usize,
    pub(crate) quick: bool,
}

/// Runs the selected measurements and prints them.
pub(crate) fn run(args: &ApiArgs) -> Result<()> {
    let setting = Setting::prepare(args)?;
    let mut report = Report::default();
    report.begin("api")?;
    // One thread: the generator's tasks then never wake each other across cores, which keeps it cheap and steady.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting a runtime")?;
    for (name, workload) in workloads::all() {
        if is_selected(&args.only, name) {
            eprintln!("api: {name}");
            runtime
                .block_on(workload(&setting, &mut report))
                .with_context(|| format!("measuring {name}"))?;
        }
    }
    report.finish();
    Ok(())
}

impl Setting {
    /// The parameters of workloads that run once, with few clients.
    pub(crate) fn single_round(setpoint: &Option<PathBuf>, dir: &Path, quick: bool) -> Result<Self> {
        Self::prepare(&ApiArgs {
            setpoint: setpoint.clone(),
            dir: dir.to_owned(),
            rounds: 1,
            clients: SINGLE_ROUND_CLIENTS,
            quick,
            only: Vec::new(),
        })
    }

    pub(crate) fn prepare(args: &ApiArgs) -> Result<Self> {
        ensure!(
            args.rounds > 0 && args.clients > 0,
            "--rounds and --clients must be at least 1"
        );
        let setpoint = match &args.setpoint {
            Some(path) => path.clone(),
            None => std::env::current_exe()
                .context("finding this program")?
                .with_file_name("setpoint"),
        };
        ensure!(
            setpoint.is_file(),
            "no server binary at {}: build it with `cargo build --release -p setpoint`, or set its path with --setpoint",
            setpoint.display()
        );
        std::fs::create_dir_all(&args.dir).with_context(|| format!("making {}", args.dir.display()))?;
        let dir = tempfile::Builder::new().prefix("api-").tempdir_in(&args.dir)?;
        let rounds = if args.quick { 1 } else { args.rounds };
        Ok(Self {
            dir,
            setpoint,
            rounds,
            clients: args.clients,
            quick: args.quick,
        })
    }

    /// The full count, or a smaller one with `--quick`.
    pub(crate) fn full_or_quick(&self, full: u64, quick: u64) -> u64 {
        if self.quick { quick } else { full }
    }
}
