//! Tests of the type checker.

use super::*;
use crate::ValueSchema;
use crate::parser::parse;

/// The type of an expression with the variables `list: list(int)`, `map: map(string, int)` and `any: dyn`.
fn outcome(source: &str) -> String {
    let variables = [
        ("list", Type::list(Type::Int)),
        ("map", Type::map(Type::String, Type::Int)),
        ("any", Type::Dyn),
    ];
    let environment = Environment {
        variables: variables.map(|(name, own)| (name.to_owned(), own)).into(),
        objects: BTreeMap::new(),
        has_patch_types: false,
    };
    let mut parsed = parse(source).unwrap();
    match check(&mut parsed.expr, parsed.nodes, &environment) {
        Ok(checked) => checked.result.to_string(),
        Err(issues) => issues[0].message.clone(),
    }
}

#[track_caller]
fn check_type(source: &str, expected: &str) {
    assert_eq!(outcome(source), expected, "{source}");
}

#[test]
fn elements_have_the_type_of_their_container() {
    check_type("list[0]", "int");
    check_type("map.key", "int");
    check_type("list.map(x, string(x))", "list(string)");
    check_type("map.all(k, k.size() > 0)", "bool");
}

#[test]
fn what_is_not_known_is_dyn() {
    check_type("any.field[0]", "dyn");
    check_type("any + 1", "int");
    check_type("[]", "list(dyn)");
}

#[test]
fn a_literal_of_different_types_is_dyn() {
    check_type("[1, 'a']", "list(dyn)");
}

#[test]
fn a_call_that_no_overload_takes_is_an_error() {
    check_type(
        "1 + 'a'",
        "found no matching overload for '_+_' applied to '(int, string)'",
    );
    check_type("list.x", "type 'list(int)' does not support field selection");
    check_type("unknown", "undeclared reference to 'unknown' (in container '')");
}

#[test]
fn operands_of_logical_operators_are_bools() {
    check_type("true && 1", "expected type 'bool' but found 'int'");
}

#[track_caller]
fn check_patch(source: &str, expected: &str) {
    let environment = crate::Environment::default()
        .with_variable("a", ValueSchema::scalar(Type::Int))
        .with_variable("a.b", ValueSchema::scalar(Type::String))
        .with_patch_types();
    let outcome = match environment.compile(source) {
        Ok(program) => program.result_type().to_string(),
        Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
    };
    assert_eq!(outcome, expected, "{source}");
}

#[test]
fn a_variable_may_have_a_dotted_name() {
    check_patch("a.b", "string");
    check_patch("a", "int");
}

#[test]
fn patches_are_constructed() {
    check_patch("Object{spec: Object.spec{replicas: 1}}", "Object");
    check_patch(
        "[JSONPatch{op: 'test', path: '/x', value: {'a': 1}}]",
        "list(JSONPatch)",
    );
    check_patch("jsonpatch.escapeKey('a/b')", "string");
    check_patch(
        "JSONPatch{op: 1}",
        "ERROR: <input>:1:13: expected type of field 'op' is 'string' but provided type is 'int'",
    );
    check_patch(
        "Objects{}",
        "ERROR: <input>:1:8: undeclared reference to 'Objects' (in container '')",
    );
}

#[test]
fn patches_are_declared_only_where_they_are_allowed() {
    let compile = |source: &str| crate::Environment::default().compile(source).is_ok();
    assert!(!compile("Object{}"));
    assert!(!compile("jsonpatch.escapeKey('a')"));
}
