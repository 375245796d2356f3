//! `mutate`: requests derived from the corpus at random, against two servers.

use anyhow::Result;
use setpoint_conformance::differential::{CaseDifference, KnownDifferences};
use setpoint_conformance::mutation::{self, AreaReport, Plan, Report};
use setpoint_conformance::{corpus, time};

use super::diff::{known, print_difference, reference};
use crate::args::Mutate;

pub(crate) fn run(args: &Mutate) -> Result<bool> {
    let known = known(&args.known)?;
    let plan = Plan {
        seed: args.seed,
        first: args.first,
        cases: args.cases,
        concurrency: args.concurrency,
        area: args.area.clone(),
        namespace: format!("{}-{}", args.namespace, args.seed),
    };
    if args.describe {
        let case = mutation::find_case(&corpus::entries(&plan.namespace), &plan, (plan.first, 0));
        println!("{}", serde_json::to_string_pretty(&case)?);
        return Ok(true);
    }
    let subject = args.subject.connect()?;
    let start = time::now();
    let report = mutation::run(&subject.endpoint, &reference(&args.reference)?, &plan);
    print_differences(&report, &known, args.show);
    let passed = print_table(&report, &known, args.min);
    println!("{} cases in {:.0} s", args.cases, start.elapsed().as_secs_f64());
    Ok(passed)
}

fn print_differences(report: &Report, known: &KnownDifferences, show: usize) {
    let cases = report.values().flat_map(|area| &area.different);
    for case in cases.filter(|case| !is_known(case, known)) {
        for found in case.iter().take(show) {
            print_difference(&found.case, &found.step, &found.difference);
        }
    }
}

/// Prints the share of equal cases of every area. Returns whether each is large enough.
fn print_table(report: &Report, known: &KnownDifferences, min: f64) -> bool {
    println!(
        "{:<10} {:>7} {:>7} {:>7} {:>8}",
        "area", "cases", "alike", "known", "percent"
    );
    let mut passed = true;
    for (name, area) in report {
        let alike = area.cases - area.different.len() as u64;
        let percent = 100.0 * alike as f64 / area.cases.max(1) as f64;
        passed &= percent >= min;
        let known = count_known(area, known);
        println!(
            "{name:<10} {:>7} {alike:>7} {known:>7} {percent:>8.2}",
            area.cases
        );
    }
    passed
}

fn count_known(area: &AreaReport, known: &KnownDifferences) -> usize {
    area.different.iter().filter(|case| is_known(case, known)).count()
}

/// Whether every difference of a case has a reason.
fn is_known(case: &[CaseDifference], known: &KnownDifferences) -> bool {
    case.iter()
        .all(|found| known.reason(&found.case, &found.difference).is_some())
}
