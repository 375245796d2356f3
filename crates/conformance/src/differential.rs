//! Two servers side by side: the same cases are sent to both, and their responses compared.
//!
//! A known difference has a row with its reason in a file; any other is reported. A recording is one side of such a run,
//! saved.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::json;

use crate::compare::{self, Difference};
use crate::normalize::NormalizedResponse;
use crate::transcript::{Case, Expect, Runner};
use crate::wire::Endpoint;

/// A difference in one case, with the step's number, method and path.
#[derive(Debug)]
pub struct CaseDifference {
    pub case: String,
    pub step: String,
    pub difference: Difference,
}

/// The known differences, each with its reason.
#[derive(Debug, Default, Deserialize)]
pub struct KnownDifferences {
    #[serde(default)]
    difference: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// A prefix of case ids.
    case: String,
    /// A prefix of paths, such as `/body/metadata`.
    #[serde(default)]
    path: String,
    reason: String,
}

/// All differences between the responses of the subject and of the reference.
pub fn diff(subject: &Endpoint, reference: &Endpoint, cases: &[Case]) -> Vec<CaseDifference> {
    let (actual, expected) = std::thread::scope(|scope| {
        let actual = scope.spawn(|| run_cases(subject, cases));
        let expected = run_cases(reference, cases);
        (
            actual.join().expect("a failed request is returned as an error"),
            expected,
        )
    });
    let mut found = Vec::new();
    for ((case, actual), expected) in cases.iter().zip(actual).zip(expected) {
        match (actual, expected) {
            (Ok(actual), Ok(expected)) => found.extend(compare(case, &expected, &actual)),
            (actual, expected) => found.push(broken(case, actual.err(), expected.err())),
        }
    }
    found
}

/// Sends every case to a server and writes its responses to a file, in the format of the recordings.
pub fn record(server: &Endpoint, cases: Vec<Case>, file: &Path) -> Result<usize> {
    let mut runner = Runner::new(server.clone());
    let mut out = fs::File::create(file).with_context(|| format!("write {}", file.display()))?;
    let count = cases.len();
    for mut case in cases {
        let responses = runner.run(&case).with_context(|| format!("case {}", case.id))?;
        for (step, response) in case.steps.iter_mut().zip(&responses) {
            step.expect = Some(Expect::of(response));
        }
        writeln!(out, "{}", serde_json::to_string(&case)?)?;
    }
    Ok(count)
}

fn run_cases(server: &Endpoint, cases: &[Case]) -> Vec<Result<Vec<NormalizedResponse>>> {
    let mut runner = Runner::new(server.clone());
    cases.iter().map(|case| runner.run(case)).collect()
}

fn compare(
    case: &Case,
    expected: &[NormalizedResponse],
    actual: &[NormalizedResponse],
) -> Vec<CaseDifference> {
    let mut found = Vec::new();
    for (number, ((step, expected), actual)) in case.steps.iter().zip(expected).zip(actual).enumerate() {
        for difference in compare::responses(
            &with_sorted_conflicts(expected),
            &with_sorted_conflicts(actual),
            &[],
        ) {
            found.push(CaseDifference {
                case: case.id.clone(),
                step: format!("step {number} {} {}", step.method, step.path),
                difference,
            });
        }
    }
    found
}

/// The response with conflicts sorted: with several managers, their order is random in Kubernetes.
fn with_sorted_conflicts(response: &NormalizedResponse) -> NormalizedResponse {
    let mut response = response.clone();
    let causes = response
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
    response
}

fn broken(case: &Case, actual: Option<anyhow::Error>, expected: Option<anyhow::Error>) -> CaseDifference {
    let error_text =
        |error: Option<anyhow::Error>| error.map_or(json!("a response"), |error| json!(format!("{error:#}")));
    CaseDifference {
        case: case.id.clone(),
        step: String::new(),
        difference: Difference {
            path: "/".to_owned(),
            expected: error_text(expected),
            actual: error_text(actual),
        },
    }
}

// === impl KnownDifferences ===

impl KnownDifferences {
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let known: Self =
            toml::from_str(&text).with_context(|| format!("{} cannot be parsed", path.display()))?;
        let unexplained = known.difference.iter().find(|row| row.reason.trim().is_empty());
        ensure!(
            unexplained.is_none(),
            "a known difference has no reason: {unexplained:?}"
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
    fn a_known_difference_is_matched_by_case_and_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("known.toml");
        let row = "[[difference]]\ncase = \"verbs.v1-\"\npath = \"/headers\"\nreason = \"why\"\n";
        fs::write(&file, row).unwrap();
        let known = KnownDifferences::read(&file).unwrap();
        assert_eq!(known.reason("verbs.v1-Pod.life", "/headers/Warning"), Some("why"));
        assert_eq!(known.reason("verbs.v1-Pod.life", "/status"), None);
        assert_eq!(known.reason("lists.pages", "/headers"), None);
    }

    #[test]
    fn the_order_of_conflicts_is_not_compared() {
        let cause =
            |manager: &str| json!({"reason": "FieldManagerConflict", "message": manager, "field": ".x"});
        let response = |causes: [&str; 2]| NormalizedResponse {
            status: 409,
            headers: json!({}),
            body: json!({"details": {"causes": causes.map(cause)}}),
            raw: json!(null),
        };
        let (left, right) = (
            with_sorted_conflicts(&response(["a", "b"])),
            with_sorted_conflicts(&response(["b", "a"])),
        );
        assert!(compare::responses(&left, &right, &[]).is_empty());
    }

    #[test]
    fn a_known_difference_without_a_reason_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("known.toml");
        fs::write(&file, "[[difference]]\ncase = \"a\"\nreason = \" \"\n").unwrap();
        assert!(KnownDifferences::read(&file).is_err());
    }
}
