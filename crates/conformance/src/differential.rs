//! Two servers side by side: the same cases are sent to both, and their responses compared.
//!
//! A known difference has a row with its reason in a file; any other is reported. A recording is one side of such a run,
//! saved.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

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
    /// A text in the expected or the actual value.
    #[serde(default)]
    contains: String,
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

/// The differences between the responses to one case.
pub fn diff_case(subject: &mut Runner, reference: &mut Runner, case: &Case) -> Vec<CaseDifference> {
    match (subject.run(case), reference.run(case)) {
        (Ok(actual), Ok(expected)) => compare(case, &expected, &actual),
        (actual, expected) => vec![broken(case, actual.err(), expected.err())],
    }
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
        let sorted = |response: &NormalizedResponse| match case.area.as_str() {
            "custom" => with_sorted_lines(&with_sorted_causes(response)),
            _ => with_sorted_lines(&with_sorted_conflicts(response)),
        };
        for difference in compare::responses(&sorted(expected), &sorted(actual), &[]) {
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

/// The response with the lines of a list of typed errors sorted: Kubernetes visits the fields of an applied configuration in
/// random map order.
fn with_sorted_lines(response: &NormalizedResponse) -> NormalizedResponse {
    let mut response = response.clone();
    let message = response.body["message"].as_str().unwrap_or_default();
    if let Some((prefix, lines)) = message.split_once(": errors:\n") {
        let mut lines: Vec<&str> = lines.split('\n').collect();
        lines.sort_unstable();
        response.body["message"] = json!(format!("{prefix}: errors:\n{}", lines.join("\n")));
    }
    response
}

/// The response to a custom resource with its causes sorted, also in the message: Kubernetes validates properties in
/// random map order.
fn with_sorted_causes(response: &NormalizedResponse) -> NormalizedResponse {
    let mut response = response.clone();
    let Some(causes) = response
        .body
        .pointer_mut("/details/causes")
        .and_then(Value::as_array_mut)
    else {
        return response;
    };
    causes.sort_by_key(|cause| (cause["field"].to_string(), cause["message"].to_string()));
    let texts: Vec<String> = causes
        .iter()
        .map(|cause| {
            let text = |name: &str| cause[name].as_str().unwrap_or_default();
            format!("{}: {}", text("field"), text("message"))
        })
        .collect();
    let message = response.body["message"].as_str().unwrap_or_default().to_owned();
    let sorted = texts
        .iter()
        .fold(message, |message, text| message.replace(text, "<cause>"));
    response.body["message"] = json!(sorted);
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
    pub fn reason(&self, case: &str, difference: &Difference) -> Option<&str> {
        let has = |value: &Value, text: &str| value.to_string().contains(text);
        let row = self.difference.iter().find(|row| {
            case.starts_with(&row.case)
                && difference.path.starts_with(&row.path)
                && (has(&difference.expected, &row.contains) || has(&difference.actual, &row.contains))
        });
        row.map(|row| row.reason.as_str())
    }

    /// Why a difference anywhere in this case is expected.
    pub fn reason_of_case(&self, case: &str) -> Option<&str> {
        let mut rows = self.difference.iter();
        let row =
            rows.find(|row| case.starts_with(&row.case) && row.path.is_empty() && row.contains.is_empty());
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
        let row = "[[difference]]\ncase = \"verbs.v1-\"\npath = \"/headers\"\ncontains = \"odd\"\nreason = \"why\"\n";
        fs::write(&file, row).unwrap();
        let known = KnownDifferences::read(&file).unwrap();
        let reason = |case: &str, path: &str, text: &str| {
            let difference = Difference {
                path: path.to_owned(),
                expected: json!(text),
                actual: json!(1),
            };
            known.reason(case, &difference).map(str::to_owned)
        };
        assert_eq!(
            reason("verbs.v1-Pod.life", "/headers/Warning", "an odd text").as_deref(),
            Some("why")
        );
        assert_eq!(reason("verbs.v1-Pod.life", "/headers/Warning", "another"), None);
        assert_eq!(reason("verbs.v1-Pod.life", "/status", "an odd text"), None);
        assert_eq!(reason("lists.pages", "/headers", "an odd text"), None);
    }

    #[test]
    fn the_order_of_causes_of_a_custom_resource_is_not_compared() {
        let response = |fields: [&str; 2], status: u16| {
            let causes = fields.map(|field| json!({"field": field, "message": "bad", "reason": "R"}));
            NormalizedResponse {
                status,
                headers: json!({}),
                body: json!({
                    "message": format!("x is invalid: [{}: bad, {}: bad]", fields[0], fields[1]),
                    "details": {"causes": causes},
                }),
                raw: Value::Null,
            }
        };
        let sorted = with_sorted_causes(&response(["a", "b"], 422));
        assert_eq!(sorted, with_sorted_causes(&response(["b", "a"], 422)));
        assert_ne!(sorted, with_sorted_causes(&response(["b", "c"], 422)));
        assert_ne!(sorted, with_sorted_causes(&response(["b", "a"], 400)));
    }

    #[test]
    fn the_order_of_typed_errors_is_not_compared() {
        let response = |lines: &str| NormalizedResponse {
            status: 500,
            headers: json!({}),
            body: json!({"message": format!("failed: errors:\n{lines}")}),
            raw: Value::Null,
        };
        let sorted = with_sorted_lines(&response("  .b: x\n  .a: y"));
        assert_eq!(sorted, with_sorted_lines(&response("  .a: y\n  .b: x")));
        assert_ne!(sorted, with_sorted_lines(&response("  .a: y\n  .b: z")));
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
