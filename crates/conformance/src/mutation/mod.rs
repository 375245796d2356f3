//! Mutations: requests derived from the corpus at random, sent to two servers and compared.
//!
//! Each case is determined by the seed and its number, has objects of its own and deletes them, so that a difference can be
//! reproduced by itself and no case depends on an earlier one. `writes` has the built-in kinds, `custom` a custom one,
//! `reads` parameters, paths and media types, `access` users with few rights; `body` mutates objects. Start reading at
//! [`run`].

mod access;
mod body;
mod custom;
mod reads;
mod writes;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::corpus::{self, Entry};
use crate::differential::{self, CaseDifference};
use crate::transcript::{Case, Runner, Step};
use crate::wire::Endpoint;

/// The range of cases to run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    /// The number of the first case.
    pub first: u64,
    pub cases: u64,
    pub concurrency: usize,
    /// Only cases of this area, if it is not empty.
    pub area: String,
    pub namespace: String,
}

/// The result of a run, by area.
pub type Report = BTreeMap<String, AreaReport>;

/// How many cases of an area were sent, and the differences of those that differ.
#[derive(Debug, Default)]
pub struct AreaReport {
    pub cases: u64,
    pub different: Vec<Vec<CaseDifference>>,
}

/// The areas, each with its share of the cases.
const AREAS: &[(&str, u32)] = &[
    ("create", 25),
    ("update", 12),
    ("patch", 13),
    ("apply", 8),
    ("status", 6),
    ("read", 8),
    ("request", 8),
    ("custom", 10),
    ("access", 10),
];

/// How often a case with a difference is sent again. Kubernetes prints maps in random order and writes some objects
/// concurrently; a case differs only if it differs every time.
const REPETITIONS: usize = 4;

/// Runs every case of the plan against both servers.
pub fn run(subject: &Endpoint, reference: &Endpoint, plan: &Plan) -> Report {
    let entries = corpus::entries(&plan.namespace);
    let next = AtomicU64::new(plan.first);
    let reports = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.concurrency)
            .map(|_| scope.spawn(|| run_worker((subject, reference), &entries, plan, &next)))
            .collect();
        let joined = workers
            .into_iter()
            .map(|worker| worker.join().expect("a failed request is returned as an error"));
        joined.collect::<Vec<Report>>()
    });
    let mut all = Report::new();
    for (area, report) in reports.into_iter().flatten() {
        let sum = all.entry(area).or_default();
        sum.cases += report.cases;
        sum.different.extend(report.different);
    }
    all
}

/// The case of this number, or none if it is of another area. A repetition is the same with other names: an object of the
/// first may still exist.
pub fn find_case(entries: &[Entry], plan: &Plan, (number, repetition): (u64, usize)) -> Option<Case> {
    let mut rng = StdRng::seed_from_u64(plan.seed.wrapping_mul(1_000_003).wrapping_add(number));
    let (area, _) = *AREAS
        .choose_weighted(&mut rng, |(_, share)| *share)
        .expect("the areas have positive shares");
    if !plan.area.is_empty() && plan.area != area {
        return None;
    }
    let rng = &mut rng;
    let id = &match repetition {
        0 => number.to_string(),
        _ => format!("{number}-{repetition}"),
    };
    let entry = choose_entry(entries, area, rng);
    Some(match area {
        "create" => writes::create(entry, id, rng),
        "update" => writes::update(entry, id, rng),
        "patch" => writes::patched(entry, id, rng),
        "apply" => writes::applied(entry, id, rng),
        "status" => writes::status(entry, id, rng),
        "read" => reads::read(&plan.namespace, id, rng),
        "request" => reads::request(entry, id, rng),
        "custom" => custom::write(&plan.namespace, id, rng),
        _ => access::request(entry, &plan.namespace, id, rng),
    })
}

/// A kind of the corpus. Stored objects need a name that cases can choose.
fn choose_entry<'a>(entries: &'a [Entry], area: &str, rng: &mut StdRng) -> &'a Entry {
    let is_stored = matches!(area, "update" | "patch" | "apply" | "status");
    let fits = |entry: &&Entry| !is_stored || entry.is_stored() && entry.renamed("x").name() != entry.name();
    let fitting: Vec<&Entry> = entries.iter().filter(fits).collect();
    fitting.choose(rng).expect("the corpus has kinds")
}

fn run_worker(
    (subject, reference): (&Endpoint, &Endpoint),
    entries: &[Entry],
    plan: &Plan,
    next: &AtomicU64,
) -> Report {
    let mut report = Report::new();
    let (mut subject, mut reference) = (Runner::new(subject.clone()), Runner::new(reference.clone()));
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= plan.first + plan.cases {
            return report;
        }
        let Some(case) = find_case(entries, plan, (number, 0)) else {
            continue;
        };
        let area = report.entry(case.area.clone()).or_default();
        area.cases += 1;
        let mut found = differential::diff_case(&mut subject, &mut reference, &case);
        for repetition in 1..=REPETITIONS {
            let Some(case) = find_case(entries, plan, (number, repetition)).filter(|_| !found.is_empty())
            else {
                break;
            };
            found = differential::diff_case(&mut subject, &mut reference, &case);
        }
        if !found.is_empty() {
            area.different.push(found);
        }
    }
}

fn case(area: &str, kind: &str, id: &str, steps: Vec<Step>) -> Case {
    Case {
        id: format!("mutation.{area}.{kind}.{id}"),
        area: area.to_owned(),
        setup: Vec::new(),
        steps,
        cleanup: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(area: &str) -> Plan {
        Plan {
            seed: 7,
            first: 0,
            cases: 500,
            concurrency: 1,
            area: area.to_owned(),
            namespace: "corpus".to_owned(),
        }
    }

    fn texts(area: &str) -> Vec<String> {
        let entries = corpus::entries("corpus");
        let plan = plan(area);
        let cases = (0..plan.cases).filter_map(|number| find_case(&entries, &plan, (number, 0)));
        cases.map(|case| format!("{case:?}")).collect()
    }

    #[test]
    fn a_case_follows_from_its_seed_and_number() {
        assert_eq!(texts(""), texts(""));
    }

    #[test]
    fn every_area_has_cases() {
        for (area, _) in AREAS {
            assert!(texts(area).len() > 10, "{area}");
        }
        assert_eq!(texts("").len(), 500);
    }
}
