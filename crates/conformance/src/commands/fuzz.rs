//! `fuzz`: many bad requests, and what must never happen.

use anyhow::{Result, bail};
use setpoint_conformance::fuzz::{self, Memory, Plan};
use setpoint_conformance::pace;

use crate::args::{Fuzz, Reached};

/// A run warms up before its memory counts.
const WARM_UP: u64 = 10;
const SHOWN: usize = 50;

pub(crate) fn run(args: &Fuzz) -> Result<bool> {
    let mut reached = args.subject.reach()?;
    let plan = Plan {
        seed: args.seed,
        first: args.first,
        requests: args.requests,
        at_once: args.at_once,
    };
    if args.describe {
        println!("{}", fuzz::describe(&reached.endpoint, plan)?);
        return Ok(true);
    }
    let start = pace::now();
    let warm = Plan {
        requests: plan.requests / WARM_UP,
        ..plan
    };
    let mut report = fuzz::run(&reached.endpoint, warm)?;
    let before = memory(&reached);
    let rest = Plan {
        first: plan.first + warm.requests,
        requests: plan.requests - warm.requests,
        ..plan
    };
    let second = fuzz::run(&reached.endpoint, rest)?;
    report.findings.extend(second.findings);
    for (status, count) in second.statuses {
        *report.statuses.entry(status).or_default() += count;
    }
    print_report(&report);
    let after = memory(&reached);
    println!(
        "{} requests in {:.1} s",
        plan.requests,
        start.elapsed().as_secs_f64()
    );
    let is_small = stays_small(args, before, after);
    Ok(is_well(&mut reached)? && report.findings.is_empty() && is_small)
}

fn print_report(report: &fuzz::Report) {
    for finding in report.findings.iter().take(SHOWN) {
        println!(
            "request {}: {}\n    {}",
            finding.number, finding.request, finding.what
        );
    }
    if report.findings.len() > SHOWN {
        println!("and {} more", report.findings.len() - SHOWN);
    }
    let statuses: Vec<String> = report
        .statuses
        .iter()
        .map(|(status, count)| format!("{status}: {count}"))
        .collect();
    println!("statuses: {}", statuses.join(", "));
    println!("{} findings", report.findings.len());
}

/// The server still answers, and its log tells of no panic.
fn is_well(reached: &mut Reached) -> Result<bool> {
    let Some(server) = &mut reached.server else {
        return Ok(true);
    };
    if !server.is_running() {
        bail!("the server has ended:\n{}", server.log());
    }
    let panics = fuzz::panics(server);
    for line in panics.iter().take(SHOWN) {
        println!("panic: {line}");
    }
    println!("{} panics", panics.len());
    Ok(panics.is_empty())
}

fn memory(reached: &Reached) -> Option<Memory> {
    reached
        .server
        .as_ref()
        .and_then(|server| Memory::of(server.pid()))
}

fn stays_small(args: &Fuzz, before: Option<Memory>, after: Option<Memory>) -> bool {
    let (Some(before), Some(after)) = (before, after) else {
        return true;
    };
    let growth = after.megabytes().saturating_sub(before.megabytes());
    println!(
        "memory: {} MB after warming up, {} MB at the end",
        before.megabytes(),
        after.megabytes()
    );
    if growth > args.max_growth_mb {
        println!(
            "memory grew by {growth} MB, at most {} MB may be",
            args.max_growth_mb
        );
    }
    growth <= args.max_growth_mb
}
