//! The scheduler's benchmark: the real binary with its scheduler, Node objects without agents, and pods created over HTTPS.
//!
//! Each workload is measured twice. *Create and bind*: the scheduler runs while the pods are created, and the CPU time of
//! both counts. *Alone*: the pods exist when the server starts; what a start without the scheduler costs is subtracted.
//! After each run the pods are listed, and a violated constraint or an over-committed node is an error.

mod check;
mod objects;
mod run;

use anyhow::{Context, Result};

use crate::{
    api::Setting,
    args::{SchedulingArgs, is_selected},
    report::Report,
};
use objects::Workload;

/// Runs the selected workloads and prints the measurements.
pub(crate) fn run(args: &SchedulingArgs) -> Result<()> {
    let setting = Setting::single_round(&args.setpoint, &args.dir, args.quick)?;
    let mut report = Report::default();
    report.begin("scheduling")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting a runtime")?;
    for workload in Workload::ALL {
        if is_selected(&args.only, workload.name()) {
            eprintln!("scheduling: {}", workload.name());
            runtime
                .block_on(run::measure(&setting, args, *workload, &mut report))
                .with_context(|| format!("measuring {}", workload.name()))?;
        }
    }
    report.finish();
    Ok(())
}
