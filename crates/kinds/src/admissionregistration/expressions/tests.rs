//! Tests of the environments of expressions.

use super::*;

const ALL: OptionalVariables = OptionalVariables {
    params: true,
    authorizer: true,
};

#[track_caller]
fn check(source: &str, result: ResultType, expected: &str) {
    let mut compiler = Compiler::with_composition();
    compiler
        .add_variable("replicas", "object.spec.replicas + 1", ALL)
        .unwrap();
    compiler.add_variable("names", "['a']", ALL).unwrap();
    let outcome = match compiler.compile(source, ALL, result) {
        Ok(_) => "valid".to_owned(),
        Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
    };
    assert_eq!(outcome, expected, "{source}");
}

#[test]
fn variables_have_their_types() {
    check("object.spec.replicas > 1", ResultType::Bool, "valid");
    check("request.userInfo.username == 'x'", ResultType::Bool, "valid");
    check(
        "request.name + 1 == 'x'",
        ResultType::Bool,
        "compilation failed: ERROR: <input>:1:14: found no matching overload for '_+_' applied to '(string, int)'",
    );
    check(
        "namespaceObject.metadata.labels['a'] == 'b'",
        ResultType::Bool,
        "valid",
    );
    check(
        "namespaceObject.metadata.uid == 'b'",
        ResultType::Bool,
        "compilation failed: ERROR: <input>:1:25: undefined field 'uid'",
    );
    check(
        "authorizer.requestResource.check('get').allowed()",
        ResultType::Bool,
        "valid",
    );
    check(
        "authorizer.group('apps').resource('deployments').check('get').allowed()",
        ResultType::Bool,
        "valid",
    );
    check("params.x == 1", ResultType::Bool, "valid");
}

#[test]
fn earlier_variables_can_be_named() {
    check("variables.names[0] == 'a'", ResultType::Bool, "valid");
    check("variables.replicas == 1", ResultType::Bool, "valid");
    check(
        "variables.other",
        ResultType::Bool,
        "compilation failed: ERROR: <input>:1:10: undefined field 'other'",
    );
}

#[test]
fn a_result_has_the_required_type() {
    check("object.x", ResultType::Bool, "must evaluate to bool but got dyn");
    check(
        "1",
        ResultType::StringOrNull,
        "must evaluate to one of [string null_type] but got int",
    );
    check("null", ResultType::StringOrNull, "valid");
    check("Object{}", ResultType::ApplyConfiguration, "valid");
    check(
        "Object.spec{}",
        ResultType::ApplyConfiguration,
        "must evaluate to Object but got Object.spec",
    );
    check(
        "[JSONPatch{op: 'remove', path: '/x'}]",
        ResultType::JsonPatch,
        "valid",
    );
    check(
        "[1]",
        ResultType::JsonPatch,
        "must evaluate to list(JSONPatch) but got list(int)",
    );
}

#[test]
fn optional_variables_are_undeclared_where_they_are_not_allowed() {
    let compile = |source| Compiler::default().compile(source, OptionalVariables::default(), ResultType::Any);
    for source in ["params", "authorizer", "variables"] {
        let expected = format!(
            "compilation failed: ERROR: <input>:1:1: undeclared reference to '{source}' (in container '')"
        );
        assert!(compile(source).unwrap_err().to_string().starts_with(&expected));
    }
}

#[test]
fn an_invalid_constant_is_an_internal_error() {
    let error = Compiler::default()
        .compile("int('x') == 1", ALL, ResultType::Bool)
        .unwrap_err();
    assert!(matches!(error, ExpressionError::Internal(_)), "{error:?}");
}
