//! `setpoint-fuzz`: runs targets for a time, and prints and saves the inputs that they panic on.

#![allow(clippy::print_stdout, reason = "a command prints for its user")]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use setpoint_api::{Clock, SystemClock};
use setpoint_fuzz::{Finding, Plan, Target, run, targets};

/// Fuzz the readers of untrusted bytes.
#[derive(Debug, Parser)]
struct Args {
    /// The target to run [default: all of them].
    #[arg(long)]
    target: Option<String>,
    /// How long each target is run.
    #[arg(long, default_value_t = 10)]
    seconds: i64,
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
        let (inputs, findings) = run_for(target, &args);
        println!("{}: {inputs} inputs, {} findings", target.name, findings.len());
        for finding in &findings {
            code = ExitCode::FAILURE;
            report(target, finding, &args)?;
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

fn run_for(target: &Target, args: &Args) -> (u64, Vec<Finding>) {
    let clock = SystemClock::new();
    let end = clock.now().as_second().saturating_add(args.seconds);
    let (mut first, mut inputs) = (args.first, 0);
    loop {
        let portion = (PORTION / target.cost).max(1);
        let plan = Plan {
            seed: args.seed,
            first,
            inputs: portion,
        };
        let report = run(target, plan);
        first += portion;
        inputs += report.inputs;
        if !report.findings.is_empty() || clock.now().as_second() >= end {
            return (inputs, report.findings);
        }
    }
}

fn report(target: &Target, finding: &Finding, args: &Args) -> Result<()> {
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
