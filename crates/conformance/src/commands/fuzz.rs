//! `fuzz`: sends fuzzed requests, and checks the responses, the server's log and its memory.

use anyhow::{Result, bail};
use setpoint_conformance::fuzz::{self, Memory, Plan};
use setpoint_conformance::time;

use crate::args::{Fuzz, Subject};

/// The requests are sent in so many parts; memory is measured after each. The first part is the warm-up.
const PARTS: u64 = 10;
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
    let mut report = fuzz::Report::default();
    let mut samples = Vec::new();
    for part in 0..PARTS {
        let (first, end) = (plan.requests * part / PARTS, plan.requests * (part + 1) / PARTS);
        let part = Plan {
            first: plan.first + first,
            requests: end - first,
            ..plan
        };
        report = report.with(fuzz::run(&subject.endpoint, part)?);
        samples.extend(memory(&subject));
    }
    print_report(&report);
    println!(
        "{} requests in {:.1} s",
        plan.requests,
        start.elapsed().as_secs_f64()
    );
    let is_bounded = check_memory_growth(args, &samples);
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

/// Whether memory grew by no more than the limit after the first sample, if the system reports it.
fn check_memory_growth(args: &Fuzz, samples: &[Memory]) -> bool {
    let megabytes: Vec<u64> = samples.iter().map(|memory| memory.megabytes()).collect();
    let (Some(before), Some(after)) = (megabytes.first(), megabytes.last()) else {
        return true;
    };
    let growth = after.saturating_sub(*before);
    println!("memory after each tenth of the requests, in MB: {megabytes:?}");
    if growth > args.max_growth_mb {
        println!(
            "memory grew by {growth} MB, more than the limit of {} MB",
            args.max_growth_mb
        );
    }
    growth <= args.max_growth_mb
}
