//! Results of a run: the summary that `go test` prints, and a JUnit report as XML or JSON.

use std::fmt::Write;

use serde_json::json;

use crate::case::CaseResult;

/// The lines of the summary, from the outermost test to the cases.
pub(crate) fn summary(results: &[CaseResult], seconds: f64) -> String {
    let word = |passed: bool| if passed { "PASS" } else { "FAIL" };
    let passed = results.iter().all(|result| result.failure.is_none());
    let mut text = format!("--- {}: kuttl ({seconds:.2}s)\n", word(passed));
    let _ = writeln!(text, "    --- {}: kuttl/harness (0.00s)", word(passed));
    for result in results {
        let (outcome, time) = (word(result.failure.is_none()), result.duration.as_secs_f64());
        let _ = writeln!(
            text,
            "        --- {outcome}: kuttl/harness/{} ({time:.2}s)",
            result.name
        );
    }
    text + word(passed)
}

/// The report as JUnit XML.
pub(crate) fn to_xml(name: &str, results: &[CaseResult], seconds: f64) -> String {
    let failures = failures(results);
    let mut text = format!(
        "<testsuites name=\"{name}\" tests=\"{0}\" failures=\"{failures}\" time=\"{seconds:.3}\">\n  <testsuite tests=\"{0}\" failures=\"{failures}\" name=\"{name}\" time=\"{seconds:.3}\">\n",
        results.len()
    );
    for result in results {
        let time = result.duration.as_secs_f64();
        let _ = write!(
            text,
            "    <testcase classname=\"{name}\" name=\"{}\" time=\"{time:.3}\" assertions=\"{}\"",
            escape(&result.name),
            result.assertions
        );
        let _ = match &result.failure {
            None => writeln!(text, "></testcase>"),
            Some((step, errors)) => writeln!(
                text,
                ">\n      <failure message=\"failed in step {}\">{}</failure>\n    </testcase>",
                escape(step),
                escape(&errors.join("\n"))
            ),
        };
    }
    text + "  </testsuite>\n</testsuites>\n"
}

/// The report as JSON.
pub(crate) fn to_json(name: &str, results: &[CaseResult], seconds: f64) -> String {
    let case = |result: &CaseResult| {
        let mut case = json!({
            "classname": name,
            "name": result.name,
            "time": format!("{:.3}", result.duration.as_secs_f64()),
            "assertions": result.assertions,
        });
        if let Some((step, errors)) = &result.failure {
            case["failure"] = json!({"message": format!("failed in step {step}"), "text": errors.join("\n")});
        }
        case
    };
    let suite = json!({
        "name": name,
        "tests": results.len(),
        "failures": failures(results),
        "time": format!("{seconds:.3}"),
        "testcase": results.iter().map(case).collect::<Vec<_>>(),
    });
    let report = json!({
        "name": name,
        "tests": results.len(),
        "failures": failures(results),
        "time": format!("{seconds:.3}"),
        "testsuite": [suite],
    });
    format!("{report:#}\n")
}

fn failures(results: &[CaseResult]) -> usize {
    results.iter().filter(|result| result.failure.is_some()).count()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&#34;")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn results() -> Vec<CaseResult> {
        let result = |name: &str, failure: Option<(String, Vec<String>)>| CaseResult {
            name: name.to_owned(),
            assertions: 2,
            duration: Duration::from_millis(1500),
            failure,
        };
        let failure = ("1-b".to_owned(), vec!["a < b".to_owned()]);
        vec![result("one", None), result("two", Some(failure))]
    }

    #[test]
    fn one_failure_fails_the_run() {
        let summary = summary(&results(), 2.0);
        assert!(summary.starts_with("--- FAIL: kuttl (2.00s)\n"));
        assert!(summary.contains("        --- PASS: kuttl/harness/one (1.50s)\n"));
        assert!(summary.ends_with("kuttl/harness/two (1.50s)\nFAIL"));
    }

    #[test]
    fn the_report_has_the_errors_escaped() {
        let xml = to_xml("suite", &results(), 2.0);
        assert!(xml.contains("<failure message=\"failed in step 1-b\">a &lt; b</failure>"));
        let json: serde_json::Value = serde_json::from_str(&to_json("suite", &results(), 2.0)).unwrap();
        assert_eq!(json["testsuite"][0]["testcase"][1]["failure"]["text"], "a < b");
    }
}
