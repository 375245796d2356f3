//! `replay`: sends recorded requests and compares the responses, area by area.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::json;
use setpoint_conformance::transcript::{self, Case, Count, Floors, Outcome};

use crate::args::Replay;

/// The number of differences that are printed of each case of an area below its floor.
const SHOWN_BELOW_FLOOR: usize = 3;
/// The number of areas run concurrently, each on its own server: most of the time is spent waiting.
const MAX_CONCURRENT_AREAS: usize = 4;
const MAX_PRINTED_CHARS: usize = 400;

pub(crate) fn run(args: &Replay) -> Result<bool> {
    let areas = areas(args)?;
    let outcomes = match args.subject.start {
        Some(_) => on_server_per_area(args, &areas)?,
        None => on_one_server(args, &areas)?,
    };
    print_differences(&outcomes, args.show);
    if let Some(path) = &args.report {
        report(path, &outcomes)?;
    }
    let counts = transcript::counts(&outcomes);
    print_counts(&counts);
    let missed = missed_floors(args, &counts)?;
    print_missed(&missed, args, outcomes);
    Ok(check_minimum(args, &counts)? && missed.is_empty())
}

fn areas(args: &Replay) -> Result<Vec<Vec<Case>>> {
    let listing = fs::read_dir(&args.transcripts)
        .with_context(|| format!("read folder {}", args.transcripts.display()))?;
    let mut files: Vec<PathBuf> = listing.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|path| {
        let path = path.to_string_lossy();
        path.ends_with(".jsonl") || path.ends_with(".jsonl.gz")
    });
    files.sort();
    let mut areas = Vec::new();
    for file in files {
        let mut cases = transcript::read(&file, &args.id)?;
        cases
            .iter_mut()
            .for_each(|case| case.limit_retries(args.max_retry_ms));
        cases.retain(|case| args.area.is_empty() || args.area.contains(&case.area));
        if !cases.is_empty() {
            areas.push(cases);
        }
    }
    Ok(areas)
}

fn on_one_server(args: &Replay, areas: &[Vec<Case>]) -> Result<Vec<Outcome>> {
    let subject = args.subject.connect()?;
    let cases: Vec<Case> = areas.concat();
    Ok(transcript::replay(&subject.endpoint, &cases, &args.ignore))
}

/// Runs each area on its own empty server, several concurrently.
fn on_server_per_area(args: &Replay, areas: &[Vec<Case>]) -> Result<Vec<Outcome>> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let worker = || -> Result<Vec<(usize, Vec<Outcome>)>> {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some(cases) = areas.get(index) else {
                return Ok(done);
            };
            let subject = args.subject.connect()?;
            done.push((index, transcript::replay(&subject.endpoint, cases, &args.ignore)));
        }
    };
    let mut outcomes: Vec<(usize, Vec<Outcome>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..MAX_CONCURRENT_AREAS).map(|_| scope.spawn(worker)).collect();
        let joined = workers
            .into_iter()
            .map(|worker| worker.join().expect("a worker returns its errors"));
        joined
            .collect::<Result<Vec<_>>>()
            .map(|outcomes| outcomes.into_iter().flatten().collect())
    })?;
    outcomes.sort_by_key(|(index, _)| *index);
    Ok(outcomes.into_iter().flat_map(|(_, outcomes)| outcomes).collect())
}

fn print_differences(outcomes: &[Outcome], show: usize) {
    if show == 0 {
        return;
    }
    for outcome in outcomes.iter().filter(|outcome| !outcome.differences.is_empty()) {
        println!("DIFFERS {}", outcome.id);
        for (step, difference) in outcome.differences.iter().take(show) {
            println!("  {step}\n    {}", difference.path);
            println!("      expected {}", truncated(&difference.expected));
            println!("      actual   {}", truncated(&difference.actual));
        }
        if outcome.differences.len() > show {
            println!("  and {} more", outcome.differences.len() - show);
        }
    }
}

fn truncated(value: &serde_json::Value) -> String {
    value.to_string().chars().take(MAX_PRINTED_CHARS).collect()
}

fn report(path: &std::path::Path, outcomes: &[Outcome]) -> Result<()> {
    let mut file = fs::File::create(path).with_context(|| format!("write {}", path.display()))?;
    for outcome in outcomes.iter().filter(|outcome| !outcome.differences.is_empty()) {
        let differences: Vec<_> = outcome
            .differences
            .iter()
            .map(|(step, difference)| json!([step, difference.path, difference.expected, difference.actual]))
            .collect();
        let line = json!({"id": outcome.id, "area": outcome.area, "differences": differences});
        writeln!(file, "{line}")?;
    }
    Ok(())
}

fn print_counts(counts: &BTreeMap<String, Count>) {
    let mut all = Count::default();
    for (area, count) in counts {
        println!(
            "{area:<14} {:>5} / {:<5} {:>5.1} %",
            count.passed,
            count.total,
            count.percent()
        );
        all.passed += count.passed;
        all.total += count.total;
    }
    println!(
        "{:<14} {:>5} / {:<5} {:>5.1} %",
        "all",
        all.passed,
        all.total,
        all.percent()
    );
}

/// The areas below their floor: name, count, floor. With `--raise-floors` there are none.
fn missed_floors(args: &Replay, counts: &BTreeMap<String, Count>) -> Result<Vec<(String, Count, usize)>> {
    let Some(path) = &args.floors else {
        return Ok(Vec::new());
    };
    let floors = if path.exists() {
        Floors::read(path)?
    } else {
        Floors::default()
    };
    if args.raise_floors {
        floors.raised(counts).write(path)?;
        return Ok(Vec::new());
    }
    Ok(floors.missed(counts))
}

/// Prints the areas below their floor. Their cases are printed even if differences are not shown otherwise: a case that
/// differs in one run of many cannot be found without it.
fn print_missed(missed: &[(String, Count, usize)], args: &Replay, mut outcomes: Vec<Outcome>) {
    for (area, count, floor) in missed {
        println!(
            "{area}: {} cases passed, below the floor of {floor}",
            count.passed
        );
    }
    if args.show == 0 {
        outcomes.retain(|outcome| missed.iter().any(|(area, ..)| *area == outcome.area));
        print_differences(&outcomes, SHOWN_BELOW_FLOOR);
    }
}

fn check_minimum(args: &Replay, counts: &BTreeMap<String, Count>) -> Result<bool> {
    let mut holds = true;
    for rule in &args.min {
        let (area, percent) = rule
            .split_once('=')
            .with_context(|| format!("invalid minimum {rule:?}: expected AREA=PERCENT"))?;
        let percent: f64 = percent.parse()?;
        let count = counts.get(area).copied().unwrap_or_default();
        if count.percent() < percent {
            println!(
                "{area}: {:.1} % passed, below the minimum of {percent} %",
                count.percent()
            );
            holds = false;
        }
    }
    Ok(holds)
}
