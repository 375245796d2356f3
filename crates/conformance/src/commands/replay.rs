//! `replay`: recorded answers, area by area.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::json;
use setpoint_conformance::transcript::{self, Case, Count, Floors, Outcome};

use crate::args::Replay;

/// So many areas at once, where each has a server of its own: most of the time is waiting.
const AT_ONCE: usize = 4;
const SHOWN_MAX: usize = 400;

pub(crate) fn run(args: &Replay) -> Result<bool> {
    let areas = areas(args)?;
    let outcomes = match args.subject.start {
        Some(_) => on_own_servers(args, &areas)?,
        None => on_one_server(args, &areas)?,
    };
    print_differences(args, &outcomes);
    if let Some(path) = &args.report {
        report(path, &outcomes)?;
    }
    let counts = transcript::counts(&outcomes);
    print_counts(&counts);
    let is_above_floors = hold_floors(args, &counts)?;
    Ok(hold_minimum(args, &counts)? && is_above_floors)
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
            .for_each(|case| case.limit_patience(args.patience_ms));
        cases.retain(|case| args.area.is_empty() || args.area.contains(&case.area));
        if !cases.is_empty() {
            areas.push(cases);
        }
    }
    Ok(areas)
}

fn on_one_server(args: &Replay, areas: &[Vec<Case>]) -> Result<Vec<Outcome>> {
    let reached = args.subject.reach()?;
    let cases: Vec<Case> = areas.concat();
    Ok(transcript::replay(&reached.endpoint, &cases, &args.ignore))
}

/// Each area on an empty server of its own, several side by side.
fn on_own_servers(args: &Replay, areas: &[Vec<Case>]) -> Result<Vec<Outcome>> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, Vec<Outcome>)>> {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some(cases) = areas.get(index) else {
                return Ok(done);
            };
            let reached = args.subject.reach()?;
            done.push((index, transcript::replay(&reached.endpoint, cases, &args.ignore)));
        }
    };
    let mut outcomes: Vec<(usize, Vec<Outcome>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        let joined = workers
            .into_iter()
            .map(|worker| worker.join().expect("a worker returns its errors"));
        joined
            .collect::<Result<Vec<_>>>()
            .map(|parts| parts.into_iter().flatten().collect())
    })?;
    outcomes.sort_by_key(|(index, _)| *index);
    Ok(outcomes.into_iter().flat_map(|(_, outcomes)| outcomes).collect())
}

fn print_differences(args: &Replay, outcomes: &[Outcome]) {
    if args.show == 0 {
        return;
    }
    for outcome in outcomes.iter().filter(|outcome| !outcome.differences.is_empty()) {
        println!("DIFFERS {}", outcome.id);
        for (place, difference) in outcome.differences.iter().take(args.show) {
            println!("  {place}\n    {}", difference.path);
            println!("      wanted {}", shortened(&difference.wanted));
            println!("      got    {}", shortened(&difference.got));
        }
        if outcome.differences.len() > args.show {
            println!("  and {} more", outcome.differences.len() - args.show);
        }
    }
}

fn shortened(value: &serde_json::Value) -> String {
    value.to_string().chars().take(SHOWN_MAX).collect()
}

fn report(path: &std::path::Path, outcomes: &[Outcome]) -> Result<()> {
    let mut file = fs::File::create(path).with_context(|| format!("write {}", path.display()))?;
    for outcome in outcomes.iter().filter(|outcome| !outcome.differences.is_empty()) {
        let differences: Vec<_> = outcome
            .differences
            .iter()
            .map(|(place, difference)| json!([place, difference.path, difference.wanted, difference.got]))
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

fn hold_floors(args: &Replay, counts: &BTreeMap<String, Count>) -> Result<bool> {
    let Some(path) = &args.floors else {
        return Ok(true);
    };
    let floors = if path.exists() {
        Floors::read(path)?
    } else {
        Floors::default()
    };
    if args.raise_floors {
        floors.raised(counts).write(path)?;
        return Ok(true);
    }
    let missed = floors.missed(counts);
    for (area, count, floor) in &missed {
        println!("{area}: {} passed, and {floor} did before", count.passed);
    }
    Ok(missed.is_empty())
}

fn hold_minimum(args: &Replay, counts: &BTreeMap<String, Count>) -> Result<bool> {
    let mut holds = true;
    for rule in &args.min {
        let (area, percent) = rule
            .split_once('=')
            .with_context(|| format!("{rule:?} is not AREA=PERCENT"))?;
        let percent: f64 = percent.parse()?;
        let count = counts.get(area).copied().unwrap_or_default();
        if count.percent() < percent {
            println!(
                "{area}: {:.1} % passed, at least {percent} % must",
                count.percent()
            );
            holds = false;
        }
    }
    Ok(holds)
}
