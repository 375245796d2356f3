//! Comparison of two responses: differences by path, with both values.

use serde_json::{Map, Value, json};

use crate::normalize::{NormalizedResponse, sort_unordered, without_descriptions};

/// A difference between two responses.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// `/status`, `/headers/...` or `/body/...`.
    pub path: String,
    pub expected: Value,
    pub actual: Value,
}

/// Keys that are not compared: `headers` and `warnings` as a whole, or fields of the body wherever they are.
pub type IgnoredNames = [String];

const ABSENT: &str = "(absent)";

/// All differences between the expected and the actual response.
pub fn responses(
    expected: &NormalizedResponse,
    actual: &NormalizedResponse,
    ignored: &IgnoredNames,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    let is_ignored = |name: &str| ignored.iter().any(|own| own == name);
    values(
        "/status",
        &json!(expected.status),
        &json!(actual.status),
        &mut differences,
    );
    if !is_ignored("headers") {
        let compared = |headers: &Value| {
            without(
                headers,
                &[if is_ignored("warnings") { "Warning" } else { "" }.to_owned()],
            )
        };
        values(
            "/headers",
            &compared(&expected.headers),
            &compared(&actual.headers),
            &mut differences,
        );
    }
    let arranged = |body: &Value| {
        let mut body = without(body, ignored);
        sort_unordered(&mut body);
        match body {
            Value::String(text) => json!(without_descriptions(&text)),
            body => body,
        }
    };
    values(
        "/body",
        &arranged(&expected.body),
        &arranged(&actual.body),
        &mut differences,
    );
    differences
}

/// All differences between two JSON values; the order of fields is not compared.
pub fn values(path: &str, expected: &Value, actual: &Value, differences: &mut Vec<Difference>) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => fields(path, expected, actual, differences),
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                values(&format!("{path}/{index}"), expected, actual, differences);
            }
        }
        _ if expected == actual => {}
        _ => differences.push(Difference {
            path: path.to_owned(),
            expected: expected.clone(),
            actual: actual.clone(),
        }),
    }
}

fn fields(
    path: &str,
    expected: &Map<String, Value>,
    actual: &Map<String, Value>,
    differences: &mut Vec<Difference>,
) {
    let absent = json!(ABSENT);
    let only_actual = actual.keys().filter(|name| !expected.contains_key(*name));
    for name in expected.keys().chain(only_actual) {
        let (expected, actual) = (
            expected.get(name).unwrap_or(&absent),
            actual.get(name).unwrap_or(&absent),
        );
        values(&format!("{path}/{name}"), expected, actual, differences);
    }
}

/// A copy without fields of these names, at any depth.
fn without(value: &Value, names: &IgnoredNames) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| !names.contains(name))
            .map(|(name, value)| (name.clone(), without(value, names)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(|item| without(item, names)).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expected: Value, actual: Value, ignored: &[&str], different: &[&str]) {
        let response = |body: Value| NormalizedResponse {
            status: 200,
            headers: json!({}),
            body,
            raw: Value::Null,
        };
        let ignored: Vec<String> = ignored.iter().map(ToString::to_string).collect();
        let differences = responses(&response(expected), &response(actual), &ignored);
        let paths: Vec<&str> = differences
            .iter()
            .map(|difference| difference.path.as_str())
            .collect();
        assert_eq!(paths, different);
    }

    #[test]
    fn the_order_of_items_is_compared_and_of_fields_not() {
        check(json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1}), &[], &[]);
        check(json!([1, 2]), json!([2, 1]), &[], &["/body/0", "/body/1"]);
    }

    #[test]
    fn a_field_on_one_side_only_is_a_difference() {
        check(json!({"a": null}), json!({}), &[], &["/body/a"]);
        check(json!({}), json!({"a": {"b": 1}}), &[], &["/body/a"]);
    }

    #[test]
    fn a_number_differs_from_a_string_and_a_float() {
        check(json!({"a": 1}), json!({"a": "1"}), &[], &["/body/a"]);
        check(json!({"a": 1}), json!({"a": 1.0}), &[], &["/body/a"]);
    }

    #[test]
    fn ignored_fields_are_ignored_at_any_depth() {
        check(json!({"a": [{"m": 1}]}), json!({"a": [{"m": 2}]}), &["m"], &[]);
    }
}
