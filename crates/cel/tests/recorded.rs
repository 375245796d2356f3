//! Expressions whose values, types, errors and costs were recorded from Kubernetes' own library.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value as Json, json};
use setpoint_cel::{CompileError, Environment, Range, Type, display};

/// The limit of an evaluation while it was recorded.
const LIMIT: u64 = 1_000_000;

/// Expressions whose results differ, and why.
const KNOWN_DIFFERENCES: &[(&str, &str)] = &[
    ("timestamp('2026-01-02T03:04:05+02:00')", OFFSET),
    ("string(timestamp('2026-01-02T03:04:05+02:00'))", OFFSET),
    ("timestamp('2026-01-02T03:04:05+02:00') + duration('1h')", OFFSET),
    ("'x'.matches(dyn('('))", REGEX),
    ("'x'.find('(')", REGEX),
    ("'x'.find(dyn('('))", REGEX),
    (
        "'%e'.format([double('Infinity')])",
        "the symbol is padded upstream",
    ),
    (
        "'%.1001f'.format([1.0])",
        "the precision has a limit, which bounds the memory of the result",
    ),
];

const OFFSET: &str = "a timestamp is the moment alone, and printed in UTC";
const REGEX: &str = "the text about an invalid regular expression is that of another library";

/// The result of an expression, in the form of the recording.
fn result_of(expression: &str) -> Json {
    match Environment::default().compile(expression) {
        Ok(program) => {
            let mut outcome = typed(expression, program.result_type(), program.estimated_cost());
            let evaluation = program.evaluate(Vec::new(), LIMIT);
            outcome["cost"] = json!(evaluation.cost);
            match &evaluation.value {
                Ok(value) => outcome["value"] = json!(display(value)),
                Err(error) => outcome["error"] = json!(error.to_string()),
            }
            outcome
        }
        Err(CompileError::Program {
            message,
            result,
            cost,
        }) => {
            let mut outcome = typed(expression, &result, cost);
            outcome["program_error"] = json!(message);
            outcome
        }
        Err(error) => json!({"expr": expression, "compile_error": error.to_string()}),
    }
}

fn typed(expression: &str, result: &Type, cost: Range) -> Json {
    let max = match cost.max {
        u64::MAX => json!("unbounded"),
        max => json!(max),
    };
    json!({"expr": expression, "type": result.canonical_name(), "min": cost.min, "max": max})
}

#[test]
fn results_are_those_of_kubernetes() {
    let recorded = setpoint_reference::text("cel-expressions.jsonl");
    let (mut total, mut differing) = (0, Vec::new());
    for line in recorded.lines() {
        let expected: Json = serde_json::from_str(line).unwrap();
        let expression = expected["expr"].as_str().unwrap();
        let own = result_of(expression);
        total += 1;
        let is_known = KNOWN_DIFFERENCES.iter().any(|(known, _)| *known == expression);
        if (own == expected) == is_known {
            differing.push(format!("expected {expected}\n     got {own}"));
        }
    }
    assert!(
        differing.is_empty(),
        "{} of {total} differ:\n{}",
        differing.len(),
        differing.join("\n")
    );
}
