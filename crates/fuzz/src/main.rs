//! `setpoint-fuzz`: runs targets for a time, and prints and saves the inputs that they panic on.

#![allow(clippy::print_stdout, reason = "a command prints for its user")]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use setpoint_api::{Clock, SystemClock};
use setpoint_fuzz::{Finding, Plan, Report, Target, run, targets};

/// Fuzz the readers of untrusted bytes.
#[derive(Debug, Parser)]
struct Args {
    /// The target to run [default: all of them].
    #[arg(long)]
    target: Option<String>,
    /// How long each target is run.
    #[arg(long, default_value_t = 10)]
    seconds: i64,
    /// How many inputs each target is run on, besides its seeds, however long it takes.
    #[arg(long, conflicts_with = "seconds")]
    inputs: Option<u64>,
    /// The seed of the random number generator.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of the first input.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// The directory for inputs that a target panicked on.
    #[arg(long, default_value = "target/fuzz")]
    findings: PathBuf,
}

/// Inputs between two looks at the clock.
const PORTION: u64 = 200;

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let mut code = ExitCode::SUCCESS;
    for target in selected(&args)? {
        let report = run_target(target, &args);
        print(target, &report);
        for finding in &report.findings {
            code = ExitCode::FAILURE;
            save(target, finding, &args)?;
        }
    }
    Ok(code)
}

fn selected(args: &Args) -> Result<Vec<&'static Target>> {
    let Some(name) = &args.target else {
        return Ok(targets::ALL.iter().collect());
    };
    let known: Vec<&str> = targets::ALL.iter().map(|target| target.name).collect();
    let target = targets::find(name);
    let target =
        target.with_context(|| format!("unknown target {name:?}; there are {}", known.join(", ")))?;
    Ok(vec![target])
}

fn run_target(target: &Target, args: &Args) -> Report {
    let clock = SystemClock::new();
    let mut plan = Plan {
        seed: args.seed,
        first: args.first,
        inputs: args.inputs.unwrap_or((PORTION / target.cost).max(1)),
    };
    let end = clock.now().as_second().saturating_add(args.seconds);
    let mut total = Report::default();
    loop {
        let report = run(target, plan, &clock);
        plan.first += plan.inputs;
        total.inputs += report.inputs;
        total.slowest = total.slowest.max(report.slowest);
        total.findings.extend(report.findings);
        if args.inputs.is_some() || !total.findings.is_empty() || clock.now().as_second() >= end {
            return total;
        }
    }
}

fn print(target: &Target, report: &Report) {
    let Report {
        inputs,
        findings,
        slowest: (duration, number),
    } = report;
    let number = number.map_or("a seed".to_owned(), |number| format!("input {number}"));
    println!(
        "{}: {inputs} inputs, {} findings, at most {} ms ({number})",
        target.name,
        findings.len(),
        duration.as_millis()
    );
}

fn save(target: &Target, finding: &Finding, args: &Args) -> Result<()> {
    fs::create_dir_all(&args.findings).context("cannot create the directory for findings")?;
    let number = finding
        .number
        .map_or("seed".to_owned(), |number| number.to_string());
    let path = args
        .findings
        .join(format!("{}-{}-{number}", target.name, args.seed));
    fs::write(&path, &finding.input).with_context(|| format!("cannot write {}", path.display()))?;
    println!("  {}: {}", path.display(), finding.message);
    Ok(())
}
