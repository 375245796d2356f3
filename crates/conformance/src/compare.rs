//! Where two answers differ: by path, with both sides.

use serde_json::{Map, Value, json};

use crate::normal::{Seen, arrange};

/// One place where two answers differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// `/status`, `/headers/...` or `/body/...`.
    pub path: String,
    pub wanted: Value,
    pub got: Value,
}

/// Keys that are not compared: `headers` and `warnings` as a whole, or fields of the body wherever they are.
pub type Ignored = [String];

const ABSENT: &str = "(absent)";

/// Every difference between an answer and the one that is wanted.
pub fn answers(wanted: &Seen, got: &Seen, ignored: &Ignored) -> Vec<Difference> {
    let mut found = Vec::new();
    let is_ignored = |word: &str| ignored.iter().any(|own| own == word);
    values("/status", &json!(wanted.status), &json!(got.status), &mut found);
    if !is_ignored("headers") {
        let kept = |headers: &Value| {
            without(
                headers,
                &[if is_ignored("warnings") { "Warning" } else { "" }.to_owned()],
            )
        };
        values(
            "/headers",
            &kept(&wanted.headers),
            &kept(&got.headers),
            &mut found,
        );
    }
    let arranged = |body: &Value| {
        let mut body = without(body, ignored);
        arrange(&mut body);
        body
    };
    values("/body", &arranged(&wanted.body), &arranged(&got.body), &mut found);
    found
}

/// Every difference between two documents; the order of fields means nothing.
pub fn values(path: &str, wanted: &Value, got: &Value, found: &mut Vec<Difference>) {
    match (wanted, got) {
        (Value::Object(wanted), Value::Object(got)) => fields(path, wanted, got, found),
        (Value::Array(wanted), Value::Array(got)) if wanted.len() == got.len() => {
            for (index, (wanted, got)) in wanted.iter().zip(got).enumerate() {
                values(&format!("{path}/{index}"), wanted, got, found);
            }
        }
        _ if wanted == got => {}
        _ => found.push(Difference {
            path: path.to_owned(),
            wanted: wanted.clone(),
            got: got.clone(),
        }),
    }
}

fn fields(path: &str, wanted: &Map<String, Value>, got: &Map<String, Value>, found: &mut Vec<Difference>) {
    let absent = json!(ABSENT);
    let only_got = got.keys().filter(|name| !wanted.contains_key(*name));
    for name in wanted.keys().chain(only_got) {
        let (wanted, got) = (
            wanted.get(name).unwrap_or(&absent),
            got.get(name).unwrap_or(&absent),
        );
        values(&format!("{path}/{name}"), wanted, got, found);
    }
}

/// A document without fields of these names.
fn without(value: &Value, names: &Ignored) -> Value {
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
    fn check(wanted: Value, got: Value, ignored: &[&str], expected: &[&str]) {
        let seen = |body: Value| Seen {
            status: 200,
            headers: json!({}),
            body,
            raw: Value::Null,
        };
        let ignored: Vec<String> = ignored.iter().map(ToString::to_string).collect();
        let found = answers(&seen(wanted), &seen(got), &ignored);
        let paths: Vec<&str> = found.iter().map(|difference| difference.path.as_str()).collect();
        assert_eq!(paths, expected);
    }

    #[test]
    fn the_order_of_fields_means_nothing_and_of_items_much() {
        check(json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1}), &[], &[]);
        check(json!([1, 2]), json!([2, 1]), &[], &["/body/0", "/body/1"]);
    }

    #[test]
    fn a_field_on_one_side_only_is_a_difference() {
        check(json!({"a": null}), json!({}), &[], &["/body/a"]);
        check(json!({}), json!({"a": {"b": 1}}), &[], &["/body/a"]);
    }

    #[test]
    fn a_number_is_no_text_and_no_fraction() {
        check(json!({"a": 1}), json!({"a": "1"}), &[], &["/body/a"]);
        check(json!({"a": 1}), json!({"a": 1.0}), &[], &["/body/a"]);
    }

    #[test]
    fn ignored_fields_are_ignored_at_any_depth() {
        check(json!({"a": [{"m": 1}]}), json!({"a": [{"m": 2}]}), &["m"], &[]);
    }
}
