//! `diff`, `record`, `check`: the corpus against two servers, or against one and what was written down.

use std::collections::BTreeMap;

use anyhow::Result;
use setpoint_conformance::compare::Difference;
use setpoint_conformance::corpus;
use setpoint_conformance::differ::{self, Known};
use setpoint_conformance::transcript::{self, Case};
use setpoint_conformance::wire::Endpoint;

use crate::args::{Check, Diff, Picked, Record};

const SHOWN_MAX: usize = 400;

pub(crate) fn diff(args: &Diff) -> Result<bool> {
    let known = known(&args.picked)?;
    let reference = match &args.reference_kubeconfig {
        Some(file) => Endpoint::of_kubeconfig(file)?,
        None => Endpoint::of_address(&args.reference, args.reference_token.as_deref())?,
    };
    let subject = args.subject.reach()?;
    let cases = cases(&args.picked);
    let found = differ::diff(&subject.endpoint, &reference, &cases);
    let rows = found
        .iter()
        .map(|found| (found.case.as_str(), found.place.as_str(), &found.difference));
    Ok(print(rows, &known, cases.len()))
}

pub(crate) fn record(args: &Record) -> Result<bool> {
    let subject = args.subject.reach()?;
    let cases = match &args.cases {
        Some(recording) => transcript::read(recording, &args.picked.id)?,
        None => cases(&args.picked),
    };
    let count = differ::record(&subject.endpoint, cases, &args.file)?;
    println!("{count} cases are in {}", args.file.display());
    Ok(true)
}

pub(crate) fn check(args: &Check) -> Result<bool> {
    let known = known(&args.picked)?;
    let mut cases = transcript::read(&args.file, "")?;
    cases.retain(|case| is_picked(&args.picked, case));
    let subject = args.subject.reach()?;
    let outcomes = transcript::replay(&subject.endpoint, &cases, &[]);
    let rows = outcomes.iter().flat_map(|outcome| {
        let differences = outcome.differences.iter();
        differences.map(|(place, difference)| (outcome.id.as_str(), place.as_str(), difference))
    });
    Ok(print(rows, &known, cases.len()))
}

fn cases(picked: &Picked) -> Vec<Case> {
    let mut cases = corpus::cases(&picked.namespace);
    cases.retain(|case| is_picked(picked, case));
    cases
}

fn is_picked(picked: &Picked, case: &Case) -> bool {
    case.id.starts_with(&picked.id)
}

fn known(picked: &Picked) -> Result<Known> {
    picked
        .known
        .as_deref()
        .map_or_else(|| Ok(Known::default()), Known::read)
}

/// Prints what is new, and counts what is known by its reason. Whether nothing is new.
fn print<'a>(
    rows: impl Iterator<Item = (&'a str, &'a str, &'a Difference)>,
    known: &Known,
    cases: usize,
) -> bool {
    let mut by_reason: BTreeMap<String, usize> = BTreeMap::new();
    let mut news = 0;
    for (case, place, difference) in rows {
        if let Some(reason) = known.reason(case, &difference.path) {
            *by_reason.entry(reason.to_owned()).or_default() += 1;
            continue;
        }
        news += 1;
        println!("{case} {place}\n    {}", difference.path);
        println!("      wanted {}", shortened(&difference.wanted));
        println!("      got    {}", shortened(&difference.got));
    }
    for (reason, count) in by_reason {
        println!("known, {count} times: {reason}");
    }
    println!("{cases} cases, {news} differences that are not known");
    news == 0
}

fn shortened(value: &serde_json::Value) -> String {
    value.to_string().chars().take(SHOWN_MAX).collect()
}
