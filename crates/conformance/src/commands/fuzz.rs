//! `fuzz`: sends fuzzed requests, and checks the responses, the server's log and its memory.

use anyhow::{Result, bail};
use setpoint_conformance::fuzz::{self, Memory, Plan};
use setpoint_conformance::time;

use crate::args::{Fuzz, Subject};

/// The warm-up is this fraction of the requests; memory is measured after it.
const WARM_UP: u64 = 10;
const MAX_PRINTED: usize = 50;

pub(crate) fn run(args: &Fuzz) -> Result<bool> {
    let mut subject = args.subject.connect()?;
    let plan = Plan {
        seed: args.seed,
        first: args.first,
        requests: args.requests,
        concurrency: args.concurrency,
    };
    if args.describe {
        println!("{}", fuzz::describe(&subject.endpoint, plan)?);
        return Ok(true);
    }
    let start = time::now();
    let warm = Plan {
        requests: plan.requests / WARM_UP,
        ..plan
    };
    let mut report = fuzz::run(&subject.endpoint, warm)?;
    let before = memory(&subject);
    let rest = Plan {
        first: plan.first + warm.requests,
        requests: plan.requests - warm.requests,
        ..plan
    };
    let second = fuzz::run(&subject.endpoint, rest)?;
    report.findings.extend(second.findings);
    for (status, count) in second.statuses {
        *report.statuses.entry(status).or_default() += count;
    }
    print_report(&report);
    let after = memory(&subject);
    println!(
        "{} requests in {:.1} s",
        plan.requests,
        start.elapsed().as_secs_f64()
    );
    let is_bounded = check_memory_growth(args, before, after);
    Ok(is_healthy(&mut subject)? && report.findings.is_empty() && is_bounded)
}

fn print_report(report: &fuzz::Report) {
    for finding in report.findings.iter().take(MAX_PRINTED) {
        println!(
            "request {}: {}\n    {}",
            finding.number, finding.request, finding.description
        );
    }
    if report.findings.len() > MAX_PRINTED {
        println!("and {} more", report.findings.len() - MAX_PRINTED);
    }
    let statuses: Vec<String> = report
        .statuses
        .iter()
        .map(|(status, count)| format!("{status}: {count}"))
        .collect();
    println!("statuses: {}", statuses.join(", "));
    println!("{} findings", report.findings.len());
}

/// Whether the server still runs, and its log has no panic.
fn is_healthy(subject: &mut Subject) -> Result<bool> {
    let Some(server) = &mut subject.server else {
        return Ok(true);
    };
    if !server.is_running() {
        bail!("the server has exited:\n{}", server.log());
    }
    let panics = fuzz::panics(server);
    for line in panics.iter().take(MAX_PRINTED) {
        println!("panic: {line}");
    }
    println!("{} panics", panics.len());
    Ok(panics.is_empty())
}

fn memory(subject: &Subject) -> Option<Memory> {
    subject
        .server
        .as_ref()
        .and_then(|server| Memory::of(server.pid()))
}

fn check_memory_growth(args: &Fuzz, before: Option<Memory>, after: Option<Memory>) -> bool {
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
            "memory grew by {growth} MB, more than the limit of {} MB",
            args.max_growth_mb
        );
    }
    growth <= args.max_growth_mb
}
