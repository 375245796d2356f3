//! Two servers side by side: the same cases, and where their answers differ.
//!
//! A difference that is known has a row with its reason; everything else is news. A recording is one side of this, kept.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::json;

use crate::compare::{self, Difference};
use crate::normal::Seen;
use crate::transcript::{Case, Expect, Runner};
use crate::wire::Endpoint;

/// A difference of one case, with the step's number, method and path.
#[derive(Debug)]
pub struct Found {
    pub case: String,
    pub place: String,
    pub difference: Difference,
}

/// Differences that are known, each with its reason.
#[derive(Debug, Default, Deserialize)]
pub struct Known {
    #[serde(default)]
    difference: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// The beginning of the names of the cases.
    case: String,
    /// The beginning of the path, such as `/body/metadata`.
    #[serde(default)]
    path: String,
    reason: String,
}

/// Every difference between what the subject and the reference answer.
pub fn diff(subject: &Endpoint, reference: &Endpoint, cases: &[Case]) -> Vec<Found> {
    let (ours, theirs) = std::thread::scope(|scope| {
        let ours = scope.spawn(|| answers(subject, cases));
        let theirs = answers(reference, cases);
        (ours.join().expect("a server that breaks is an answer"), theirs)
    });
    let mut found = Vec::new();
    for ((case, ours), theirs) in cases.iter().zip(ours).zip(theirs) {
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => found.extend(compare(case, &theirs, &ours)),
            (ours, theirs) => found.push(broken(case, ours.err(), theirs.err())),
        }
    }
    found
}

/// Asks a server every case and writes down what it answers, in the form of the recordings.
pub fn record(server: &Endpoint, cases: Vec<Case>, file: &Path) -> Result<usize> {
    let mut runner = Runner::new(server.clone());
    let mut out = fs::File::create(file).with_context(|| format!("write {}", file.display()))?;
    let count = cases.len();
    for mut case in cases {
        let seen = runner.run(&case).with_context(|| format!("case {}", case.id))?;
        for (step, seen) in case.steps.iter_mut().zip(&seen) {
            step.expect = Some(Expect::of(seen));
        }
        writeln!(out, "{}", serde_json::to_string(&case)?)?;
    }
    Ok(count)
}

fn answers(server: &Endpoint, cases: &[Case]) -> Vec<Result<Vec<Seen>>> {
    let mut runner = Runner::new(server.clone());
    cases.iter().map(|case| runner.run(case)).collect()
}

fn compare(case: &Case, wanted: &[Seen], got: &[Seen]) -> Vec<Found> {
    let mut found = Vec::new();
    for (number, ((step, wanted), got)) in case.steps.iter().zip(wanted).zip(got).enumerate() {
        for difference in compare::answers(&settled(wanted), &settled(got), &[]) {
            found.push(Found {
                case: case.id.clone(),
                place: format!("step {number} {} {}", step.method, step.path),
                difference,
            });
        }
    }
    found
}

/// An answer without the order of conflicts with several managers, which is random in Kubernetes.
fn settled(seen: &Seen) -> Seen {
    let mut seen = seen.clone();
    let causes = seen
        .body
        .pointer_mut("/details/causes")
        .and_then(|causes| causes.as_array_mut());
    if let Some(causes) = causes {
        let conflicts = causes
            .iter()
            .all(|cause| cause["reason"] == "FieldManagerConflict");
        if conflicts {
            causes.sort_by_key(|cause| (cause["message"].to_string(), cause["field"].to_string()));
        }
    }
    seen
}

fn broken(case: &Case, ours: Option<anyhow::Error>, theirs: Option<anyhow::Error>) -> Found {
    let told =
        |error: Option<anyhow::Error>| error.map_or(json!("answers"), |error| json!(format!("{error:#}")));
    Found {
        case: case.id.clone(),
        place: String::new(),
        difference: Difference {
            path: "/".to_owned(),
            wanted: told(theirs),
            got: told(ours),
        },
    }
}

// === impl Known ===

impl Known {
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let known: Self =
            toml::from_str(&text).with_context(|| format!("{} is not as it should be", path.display()))?;
        let unexplained = known.difference.iter().find(|row| row.reason.trim().is_empty());
        ensure!(
            unexplained.is_none(),
            "a known difference has its reason: {unexplained:?}"
        );
        Ok(known)
    }

    /// Why this difference is expected.
    pub fn reason(&self, case: &str, path: &str) -> Option<&str> {
        let row = self
            .difference
            .iter()
            .find(|row| case.starts_with(&row.case) && path.starts_with(&row.path));
        row.map(|row| row.reason.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_difference_is_told_by_case_and_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("known.toml");
        let row = "[[difference]]\ncase = \"verbs.v1-\"\npath = \"/headers\"\nreason = \"why\"\n";
        fs::write(&file, row).unwrap();
        let known = Known::read(&file).unwrap();
        assert_eq!(known.reason("verbs.v1-Pod.life", "/headers/Warning"), Some("why"));
        assert_eq!(known.reason("verbs.v1-Pod.life", "/status"), None);
        assert_eq!(known.reason("lists.pages", "/headers"), None);
    }

    #[test]
    fn conflicts_with_several_managers_have_no_order() {
        let cause =
            |manager: &str| json!({"reason": "FieldManagerConflict", "message": manager, "field": ".x"});
        let answer = |causes: [&str; 2]| Seen {
            status: 409,
            headers: json!({}),
            body: json!({"details": {"causes": causes.map(cause)}}),
            raw: json!(null),
        };
        let (left, right) = (settled(&answer(["a", "b"])), settled(&answer(["b", "a"])));
        assert!(compare::answers(&left, &right, &[]).is_empty());
    }

    #[test]
    fn a_difference_without_a_reason_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("known.toml");
        fs::write(&file, "[[difference]]\ncase = \"a\"\nreason = \" \"\n").unwrap();
        assert!(Known::read(&file).is_err());
    }
}
