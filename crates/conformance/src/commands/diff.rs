//! `diff`, `record`, `check`: the corpus against two servers, or against one server and a recording.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use setpoint_conformance::compare::Difference;
use setpoint_conformance::corpus;
use setpoint_conformance::differential::{self, KnownDifferences};
use setpoint_conformance::transcript::{self, Case};
use setpoint_conformance::wire::Endpoint;

use crate::args::{CaseSelection, Check, Diff, Record, ReferenceArgs};

const MAX_PRINTED_CHARS: usize = 4000;

pub(crate) fn diff(args: &Diff) -> Result<bool> {
    let known = known(&args.selection.known)?;
    let reference = reference(&args.reference)?;
    let subject = args.subject.connect()?;
    let cases = cases(&args.selection);
    let found = differential::diff(&subject.endpoint, &reference, &cases);
    let rows = found
        .iter()
        .map(|found| (found.case.as_str(), found.step.as_str(), &found.difference));
    Ok(print(rows, &known, cases.len()))
}

pub(crate) fn record(args: &Record) -> Result<bool> {
    let subject = args.subject.connect()?;
    let cases = match &args.cases {
        Some(recording) => transcript::read(recording, &args.selection.id)?,
        None => cases(&args.selection),
    };
    let count = differential::record(&subject.endpoint, cases, &args.file)?;
    println!("wrote {count} cases to {}", args.file.display());
    Ok(true)
}

pub(crate) fn check(args: &Check) -> Result<bool> {
    let known = known(&args.selection.known)?;
    let mut cases = transcript::read(&args.file, "")?;
    cases.retain(|case| is_selected(&args.selection, case));
    let subject = args.subject.connect()?;
    let outcomes = transcript::replay(&subject.endpoint, &cases, &[]);
    let rows = outcomes.iter().flat_map(|outcome| {
        let differences = outcome.differences.iter();
        differences.map(|(step, difference)| (outcome.id.as_str(), step.as_str(), difference))
    });
    Ok(print(rows, &known, cases.len()))
}

fn cases(selection: &CaseSelection) -> Vec<Case> {
    let mut cases = corpus::cases(&selection.namespace);
    cases.retain(|case| is_selected(selection, case));
    cases
}

fn is_selected(selection: &CaseSelection, case: &Case) -> bool {
    case.id.starts_with(&selection.id)
}

pub(super) fn known(file: &Option<PathBuf>) -> Result<KnownDifferences> {
    file.as_deref()
        .map_or_else(|| Ok(KnownDifferences::default()), KnownDifferences::read)
}

pub(super) fn reference(args: &ReferenceArgs) -> Result<Endpoint> {
    Ok(match &args.reference_kubeconfig {
        Some(file) => Endpoint::of_kubeconfig(file)?,
        None => Endpoint::of_address(&args.reference, args.reference_token.as_deref())?,
    })
}

/// Prints unknown differences, and counts known ones by reason. Returns whether there is no unknown one.
fn print<'a>(
    rows: impl Iterator<Item = (&'a str, &'a str, &'a Difference)>,
    known: &KnownDifferences,
    cases: usize,
) -> bool {
    let mut by_reason: BTreeMap<String, usize> = BTreeMap::new();
    let mut unknown = 0;
    for (case, step, difference) in rows {
        if let Some(reason) = known.reason(case, difference) {
            *by_reason.entry(reason.to_owned()).or_default() += 1;
            continue;
        }
        unknown += 1;
        print_difference(case, step, difference);
    }
    for (reason, count) in by_reason {
        println!("known, {count} times: {reason}");
    }
    println!("{cases} cases, {unknown} unknown differences");
    unknown == 0
}

pub(super) fn print_difference(case: &str, step: &str, difference: &Difference) {
    println!("{case} {step}\n    {}", difference.path);
    println!("      expected {}", truncated(&difference.expected));
    println!("      actual   {}", truncated(&difference.actual));
}

fn truncated(value: &serde_json::Value) -> String {
    value.to_string().chars().take(MAX_PRINTED_CHARS).collect()
}
