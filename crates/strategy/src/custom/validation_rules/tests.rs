//! Rules evaluated on values: which are reported, at which path, and with which text.

use setpoint_api::field::Errors;
use setpoint_schema::Tree;
use setpoint_schema::custom::Schema;

use super::*;

fn parse(json: &str) -> Tree {
    setpoint_codec::json::parse(json.as_bytes()).unwrap()
}

/// Evaluates the rules of the schema of `spec`. Returns errors, then warnings.
fn evaluate(spec: &str, value: &str, old: Option<&str>, budget: u64) -> Vec<String> {
    let schema = Schema::compile(&parse(&format!(
        r#"{{"type": "object", "properties": {{"spec": {spec}}}}}"#
    )));
    let object = |spec: &str| {
        parse(&format!(
            r#"{{"apiVersion": "a.b/v1", "kind": "C", "metadata": {{"name": "n", "labels": {{}}}}, "spec": {spec}}}"#
        ))
    };
    let (value, old) = (object(value), old.map(object));
    let target = RuleTarget {
        value: &value,
        old: old.as_ref(),
        is_ratcheted: true,
    };
    let errors = Errors::default();
    let validator = RuleValidator::compile(&schema, true).unwrap();
    validator.validate(&schema, target, budget, &errors);
    let warnings = errors.take_warnings();
    let errors = errors.into_vec().iter().map(ToString::to_string).collect();
    let warnings = warnings.iter().map(|warning| format!("warning: {warning}"));
    [errors, warnings.collect::<Vec<_>>()].concat()
}

#[track_caller]
fn check(spec: &str, value: &str, expected: &[&str]) {
    assert_eq!(evaluate(spec, value, None, RUNTIME_COST_BUDGET), expected);
}

#[track_caller]
fn check_update(spec: &str, old: &str, value: &str, expected: &[&str]) {
    assert_eq!(evaluate(spec, value, Some(old), RUNTIME_COST_BUDGET), expected);
}

/// An object with the properties `n`, `s`, `date`, `time`, `bytes`, `any`, `list` and `map`, and the given rules.
fn object(rules: &str) -> String {
    format!(
        r#"{{"type": "object", "x-kubernetes-validations": [{rules}], "properties": {{
            "n": {{"type": "integer"}}, "s": {{"type": "string"}}, "x-y": {{"type": "number"}},
            "namespace": {{"type": "string"}},
            "date": {{"type": "string", "format": "date-time"}}, "time": {{"type": "string", "format": "duration"}},
            "bytes": {{"type": "string", "format": "byte"}}, "any": {{"x-kubernetes-int-or-string": true}},
            "none": {{"type": "string", "nullable": true}},
            "set": {{"type": "array", "x-kubernetes-list-type": "set", "items": {{"type": "string"}}}},
            "embedded": {{"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true}},
            "list": {{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {{
                "type": "object", "properties": {{"k": {{"type": "string"}}, "v": {{"type": "integer"}}}}}}}},
            "map": {{"type": "object", "additionalProperties": {{"type": "integer"}}}}}}}}"#
    )
}

fn rule(expression: &str) -> String {
    object(&format!(r#"{{"rule": {expression:?}}}"#))
}

#[track_caller]
fn check_rule(expression: &str, value: &str, is_valid: bool) {
    let failed = format!("spec: Invalid value: failed rule: {expression}");
    let expected: &[&str] = if is_valid { &[] } else { &[&failed] };
    check(&rule(expression), value, expected);
}

#[test]
fn values_have_the_types_of_their_schemas() {
    check_rule(
        "self.n == 3 && self.x__dash__y == 2.0",
        r#"{"n": 3, "x-y": 2}"#,
        true,
    );
    check_rule("self.__namespace__ == 'a'", r#"{"namespace": "b"}"#, false);
    check_rule(
        "self.date > timestamp('2026-01-01T00:00:00Z')",
        r#"{"date": "2026-02-01T00:00:00Z"}"#,
        true,
    );
    check_rule("self.time < duration('1h')", r#"{"time": "2h"}"#, false);
    check_rule("self.bytes == b'abc'", r#"{"bytes": "YWJj"}"#, true);
    check_rule("type(self.any) == int", r#"{"any": "5%"}"#, false);
    check_rule("has(self.none)", r#"{"none": null}"#, false);
    check_rule("self.set == ['b', 'a']", r#"{"set": ["a", "b"]}"#, true);
    check_rule(
        "self.map.all(key, self.map[key] < 5)",
        r#"{"map": {"a": 7}}"#,
        false,
    );
    check_rule(
        "self.embedded.kind == 'Pod' && self.embedded.metadata.name == 'p'",
        r#"{"embedded": {"kind": "Pod", "metadata": {"name": "p"}}}"#,
        true,
    );
}

#[test]
fn the_root_sees_its_type_and_its_name() {
    let schema = Schema::compile(&parse(
        r#"{"type": "object", "x-kubernetes-validations": [
            {"rule": "self.metadata.name == 'n' && self.kind == 'C' && self.apiVersion == 'a.b/v1'"},
            {"rule": "has(self.metadata.labels)"}]}"#,
    ));
    let value = parse(r#"{"apiVersion": "a.b/v1", "kind": "C", "metadata": {"name": "n", "labels": {}}}"#);
    let target = RuleTarget {
        value: &value,
        old: None,
        is_ratcheted: false,
    };
    let errors = Errors::default();
    let validator = RuleValidator::compile(&schema, true).unwrap();
    validator.validate(&schema, target, RUNTIME_COST_BUDGET, &errors);
    let found: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "<nil>: Invalid value: \"object\": rule compile error: compilation failed: ERROR: <input>:1:4: undefined field 'labels'\n | has(self.metadata.labels)\n | ...^"
        ]
    );
}

#[test]
fn a_violation_has_the_message_reason_and_path_of_its_rule() {
    let value = r#"{"n": 3}"#;
    let rule = |more: &str| object(&format!(r#"{{"rule": "self.n > 5", {more}}}"#));
    check(
        &rule(r#""message": " too small ""#),
        value,
        &["spec: Invalid value: too small"],
    );
    check(
        &rule(r#""messageExpression": "'n is ' + string(self.n)""#),
        value,
        &["spec: Invalid value: n is 3"],
    );
    check(
        &rule(r#""messageExpression": "self.s", "message": "fallback""#),
        value,
        &["spec: Invalid value: fallback"],
    );
    check(
        &rule(r#""messageExpression": "'two\\nlines'""#),
        value,
        &["spec: Invalid value: failed rule: self.n > 5"],
    );
    check(
        &rule(r#""reason": "FieldValueForbidden", "fieldPath": ".n""#),
        value,
        &["spec.n: Forbidden: failed rule: self.n > 5"],
    );
    check(
        &rule(r#""reason": "FieldValueRequired", "message": "more""#),
        value,
        &["spec: Required value: more"],
    );
    check(
        &rule(r#""reason": "FieldValueDuplicate""#),
        value,
        &["spec: Duplicate value"],
    );
    let scalar = r#"{"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'b'"}]}}"#;
    check(
        scalar,
        r#"["a", "b"]"#,
        &[r#"spec[1]: Invalid value: "b": failed rule: self != 'b'"#],
    );
}

#[test]
fn an_error_of_an_evaluation_is_reported() {
    check(
        &rule("self.s == 'a'"),
        "{}",
        &[r#"spec: Invalid value: "object": no such key: s evaluating rule: self.s == 'a'"#],
    );
    check(
        &rule("self.any < 5"),
        r#"{"any": "a"}"#,
        &[
            r#"spec: Invalid value: "object": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: self.any < 5"#,
        ],
    );
}

#[test]
fn a_transition_rule_is_evaluated_where_there_is_an_old_value() {
    let list = r#"{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
        "type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer",
        "x-kubernetes-validations": [{"rule": "self != oldSelf"}]}}}}"#;
    check(list, r#"[{"k": "a", "v": 1}]"#, &[]);
    check_update(
        list,
        r#"[{"k": "a", "v": 1}, {"k": "b", "v": 2}]"#,
        r#"[{"k": "b", "v": 2}, {"k": "a", "v": 9}, {"k": "c", "v": 1}]"#,
        &["spec[0].v: Invalid value: 2: failed rule: self != oldSelf"],
    );
    let optional = r#"{"type": "integer", "x-kubernetes-validations": [
        {"rule": "oldSelf.hasValue() ? self > oldSelf.value() : self > 5", "optionalOldSelf": true}]}"#;
    let failed =
        "spec: Invalid value: 3: failed rule: oldSelf.hasValue() ? self > oldSelf.value() : self > 5";
    check(optional, "3", &[failed]);
    check_update(optional, "2", "3", &[]);
    check_update(optional, "4", "3", &[failed]);
}

#[test]
fn a_violation_by_an_unchanged_value_is_a_warning() {
    let schema = r#"{"type": "object", "properties": {"o": {"type": "object", "properties": {"n": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.n > 5"}, {"rule": "oldSelf.n > 5"}]}, "p": {"type": "integer"}}}"#;
    check_update(
        schema,
        r#"{"o": {"n": 1}, "p": 1}"#,
        r#"{"o": {"n": 1}, "p": 2}"#,
        &[
            "spec.o: Invalid value: failed rule: oldSelf.n > 5",
            "warning: spec.o: Invalid value: failed rule: self.n > 5",
        ],
    );
    let atomic = r#"{"type": "array", "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5"}]}}"#;
    check_update(
        atomic,
        "[1, 7]",
        "[1, 7]",
        &["warning: spec[0]: Invalid value: 1: failed rule: self > 5"],
    );
    check_update(
        atomic,
        "[1, 7]",
        "[1, 8]",
        &["spec[0]: Invalid value: 1: failed rule: self > 5"],
    );
}

#[test]
fn evaluations_stop_at_the_limit_and_at_the_end_of_the_budget() {
    let expensive = rule("self.list.all(a, self.list.all(b, self.list.all(c, a.v + b.v + c.v > 0)))");
    let items: Vec<String> = (1..150).map(|n| format!(r#"{{"k": "{n}", "v": {n}}}"#)).collect();
    let value = format!(r#"{{"list": [{}]}}"#, items.join(","));
    check(
        &expensive,
        &value,
        &[
            r#"spec: Invalid value: "object": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.list.all(a, self.list.all(b, self.list.all(c, a.v + b.v + c.v > 0)))"#,
        ],
    );
    let out_of_budget = r#"spec: Invalid value: "object": validation failed due to running out of cost budget, no further validation rules will be run"#;
    assert_eq!(
        evaluate(&rule("self.n > 1"), r#"{"n": 2}"#, None, 2),
        [out_of_budget]
    );
    assert_eq!(
        evaluate(&rule("self.n > 1"), r#"{"n": 2}"#, None, 0),
        [out_of_budget]
    );
}

#[test]
fn objects_are_equal_if_their_undeclared_fields_are() {
    let schema = rule("self.embedded == oldSelf.embedded");
    let old = r#"{"embedded": {"kind": "Pod", "spec": {"a": 1}}}"#;
    check_update(&schema, old, old, &[]);
    check_update(
        &schema,
        old,
        r#"{"embedded": {"kind": "Pod", "spec": {"a": 2}}}"#,
        &["spec: Invalid value: failed rule: self.embedded == oldSelf.embedded"],
    );
}
