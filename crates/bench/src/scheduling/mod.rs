//! The scheduler's benchmark: the real binary with its scheduler, Node objects without agents, and pods created over HTTPS.
//!
//! Each workload is measured twice. *Create and bind*: the scheduler runs while the pods are created, and the CPU time of
//! both counts. *Alone*: the pods exist when the server starts; what a start without the scheduler costs is subtracted.
//! After each run the pods are listed, and a violated constraint or an over-committed node is an error. `--nodes`, `--pods` and
//! `--workers` may have several values: every combination is measured, and the table at the end shows the growth.
//!
//! `--only failover` kills the leader of two schedulers instead, in the middle of the pods, which fill all nodes.

mod check;
mod failover;
mod objects;
mod run;
mod table;

use anyhow::{Context, Result};

use crate::{
    api::Setting,
    args::{SchedulingArgs, is_selected},
    report::Report,
};
use objects::Workload;
use run::Plan;

/// Runs the selected workloads and prints the measurements.
pub(crate) fn run(args: &SchedulingArgs) -> Result<()> {
    let setting = Setting::single_round(&args.setpoint, &args.dir, args.quick)?;
    let mut report = Report::default();
    report.begin("scheduling")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting a runtime")?;
    let mut rows = Vec::new();
    for plan in plans(args, &setting) {
        eprintln!("scheduling: {}", plan.describe());
        let row = runtime.block_on(run::measure(&setting, plan, &mut report));
        rows.push(row.with_context(|| format!("measuring {}", plan.describe()))?);
    }
    if args.only.iter().any(|name| name == failover::NAME) {
        // Four pods fill a node.
        for pods in &args.pods {
            let nodes = setting.full_or_quick(*pods, *pods / 10).div_ceil(4);
            eprintln!("scheduling: {}, {nodes} nodes", failover::NAME);
            runtime.block_on(failover::run(&setting, nodes, &mut report))?;
        }
    }
    report.finish();
    eprint!("{}", table::table(&rows));
    Ok(())
}

/// Every combination of the selected workloads with the numbers of nodes, pods and workers.
fn plans(args: &SchedulingArgs, setting: &Setting) -> Vec<Plan> {
    let selected = Workload::ALL
        .iter()
        .filter(|workload| is_selected(&args.only, workload.name()));
    let workers: Vec<Option<u32>> = match args.workers[..] {
        [] => vec![None],
        _ => args.workers.iter().copied().map(Some).collect(),
    };
    let mut plans = Vec::new();
    for workload in selected {
        for nodes in &args.nodes {
            for pods in &args.pods {
                plans.extend(workers.iter().map(|workers| {
                    let scale = |number: u64| setting.full_or_quick(number, number / 10);
                    Plan::new(*workload, scale(*nodes), scale(*pods), *workers)
                }));
            }
        }
    }
    plans
}
