//! Normalization of texts and objects.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::value::sort_unordered;
use super::*;

fn normalizer() -> Normalizer {
    Normalizer::new("2026-01-02T00:00:00Z".parse::<Timestamp>().unwrap())
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(normalizer().text(text), expected);
}

#[track_caller]
fn check_value(value: Value, expected: Value) {
    assert_eq!(normalizer().value(&value), expected);
}

#[test]
fn uids_and_recent_times_are_placeholders() {
    check("a 0f8fad5b-d9cb-469f-a165-70867728950e.", "a <uid>.");
    check("from e02fd0e4-00fd-090a-ca30-0d00a0038ba0", "from <uid>");
    check("at 2026-01-01T10:00:00Z", "at <time>");
    check("at 2026-01-01T10:00:00.123456+01:00!", "at <time>!");
    check("at 2001-01-01T10:00:00Z", "at 2001-01-01T10:00:00Z");
    check("at 2026-01-01T10:00:00", "at 2026-01-01T10:00:00");
}

#[test]
fn versions_in_texts_are_placeholders() {
    check(r#"{"resourceVersion":"12"}"#, r#"{"resourceVersion":"<rv>"}"#);
    check(
        r#"{\"resourceVersion\":\"12\"}"#,
        r#"{\"resourceVersion\":\"<rv>\"}"#,
    );
    check("resourceVersion: \"7\"", "resourceVersion: \"<rv>\"");
    check("  continue: eyJ2-_x\n  x", "  continue: <continue>\n  x");
    check(r#""resourceVersion":"0""#, r#""resourceVersion":"0""#);
    check(
        "Precondition failed: ResourceVersion in the precondition (5) does not match ResourceVersion in record (6).",
        "Precondition failed: ResourceVersion in the precondition (<rv>) does not match ResourceVersion in record (<rv>).",
    );
    check(
        "Too large resource version: 900, current: 17",
        "Too large resource version: 900, current: <rv>",
    );
}

#[test]
fn addresses_ports_tokens_and_volumes_are_placeholders() {
    check(
        "10.0.0.7 and 10.0.0.0/24 and 110.0.0.1",
        "<ip> and 10.0.0.0/24 and 110.0.0.1",
    );
    check("80:31234/TCP", "80:<port>/TCP");
    check("eyJhbGciOiJSUzI1.eyJhdWQiOlsi.c2ln-_x.", "<token>.");
    check(&format!("X509SHA256={}.", "0f".repeat(32)), "X509SHA256=<hash>.");
    check("kube-api-access-x7k2p", "kube-api-access-<rand>");
    check("ünïcode 10.0.0.1ü", "ünïcode <ip>ü");
}

#[test]
fn a_requested_generate_name_is_replaced_in_an_error() {
    let mut normalizer = normalizer();
    normalizer.note_generate_names(r#"{"metadata":{"generateName": "web-"}}"#);
    assert_eq!(
        normalizer.text("pods \"web-x7k2p\" and web-x7k2pz"),
        "pods \"web-<rand>\" and web-x7k2pz"
    );
}

#[test]
fn a_long_generate_name_is_replaced_to_the_same_extent_in_a_recording() {
    let mut normalizer = normalizer();
    let name = "g".repeat(100);
    normalizer.note_generate_names(&json!({"metadata": {"generateName": name}}).to_string());
    let recorded = format!("{}<rand><rand>", "g".repeat(90));
    let expected = format!("{}{}", "g".repeat(60), "<rand>".repeat(8));
    assert_eq!(normalizer.text(&name), expected);
    assert_eq!(
        normalizer.recorded(&json!({"a": [recorded]})),
        json!({"a": [expected]})
    );
}

#[test]
fn a_generated_name_is_replaced_in_later_responses() {
    let mut normalizer = normalizer();
    normalizer.learn(&json!({"kind": "Pod", "metadata": {"generateName": "a-", "name": "a-b-c"}}));
    assert_eq!(
        normalizer.text("pods \"a-b-c\" not found"),
        "pods \"a-<rand>\" not found"
    );
}

#[test]
fn server_set_fields_are_placeholders() {
    check_value(
        json!({"resourceVersion": "5", "continue": "abc", "nodePort": 31000, "token": "a.b.c", "port": 31000}),
        json!({"resourceVersion": "<rv>", "continue": "<continue>", "nodePort": "<port>", "token": "<token>", "port": 31000}),
    );
    check_value(
        json!({"resourceVersion": "", "continue": ""}),
        json!({"resourceVersion": "", "continue": ""}),
    );
}

#[test]
fn ages_in_tables_are_placeholders() {
    check_value(
        json!({"kind": "Table", "columnDefinitions": [{"name": "Name", "description": "x"}, {"name": "Age"}],
            "rows": [{"cells": ["5s", "3m2s"]}, {"cells": ["a", "<unknown>"]}]}),
        json!({"kind": "Table", "columnDefinitions": [{"name": "Name"}, {"name": "Age"}],
            "rows": [{"cells": ["5s", "<age>"]}, {"cells": ["a", "<unknown>"]}]}),
    );
}

#[test]
fn the_order_of_apply_conflicts_is_not_compared() {
    let cause = |manager: &str| json!({"reason": "FieldManagerConflict", "message": manager});
    let mut one = json!({"causes": [cause("b"), cause("a")]});
    sort_unordered(&mut one);
    assert_eq!(one, json!({"causes": [cause("a"), cause("b")]}));
    let mut others = json!({"causes": [{"reason": "Required"}, {"reason": "Invalid"}]});
    let expected = others.clone();
    sort_unordered(&mut others);
    assert_eq!(others, expected);
}

#[test]
fn the_order_of_managed_fields_is_not_compared() {
    let mut one = json!({"managedFields": [{"manager": "b"}, {"manager": "a"}], "items": [2, 1]});
    let mut other = json!({"managedFields": [{"manager": "a"}, {"manager": "b"}], "items": [2, 1]});
    sort_unordered(&mut one);
    sort_unordered(&mut other);
    assert_eq!(one, other);
}
