//! Tests of match conditions and of variables.

use std::sync::Arc;

use setpoint_cel::{Check, Decision, ResourceCheck, Value, display};
use setpoint_kinds::admissionregistration::expressions::{Compiler, OptionalVariables, ResultType};
use setpoint_schema::{Tree, to_tree};

use super::*;

/// Allows the verb `get`.
#[derive(Debug)]
struct OnlyGet;

impl setpoint_cel::Authorizer for OnlyGet {
    fn authorize(&self, check: &Check) -> Decision {
        Decision {
            allowed: check.verb == "get",
            ..Decision::default()
        }
    }
}

fn tree(value: &serde_json::Value) -> Tree {
    to_tree(value).unwrap()
}

fn with_inputs<T>(run: impl FnOnce(&Inputs<'_>) -> T) -> T {
    let object = tree(&serde_json::json!({"metadata": {"name": "web"}, "spec": {"replicas": 3}}));
    let request =
        tree(&serde_json::json!({"operation": "CREATE", "name": "web", "userInfo": {"username": "ann"}}));
    let authorizer = RequestAuthorizer {
        checks: Arc::new(OnlyGet),
        resource: ResourceCheck::default(),
    };
    run(&Inputs {
        object: Some(&object),
        old_object: None,
        request: &request,
        namespace: Some(&object),
        params: None,
        authorizer: &authorizer,
    })
}

#[track_caller]
fn check(conditions: &[&str], expected: Result<bool, &str>) {
    let condition = |expression: &&str| MatchCondition {
        name: "c".to_owned(),
        expression: (*expression).to_owned(),
    };
    let conditions: Vec<MatchCondition> = conditions.iter().map(condition).collect();
    let outcome = with_inputs(|inputs| MatchConditions::of_webhook(&conditions).evaluate(inputs, &[]));
    assert_eq!(outcome, expected.map_err(str::to_owned));
}

#[test]
fn all_conditions_must_be_true() {
    check(&[], Ok(true));
    check(
        &["object.spec.replicas == 3", "request.operation == 'CREATE'"],
        Ok(true),
    );
    check(
        &["object.spec.replicas == 3", "request.operation == 'DELETE'"],
        Ok(false),
    );
    check(&["authorizer.requestResource.check('get').allowed()"], Ok(true));
    check(&["authorizer.requestResource.check('list').allowed()"], Ok(false));
}

#[test]
fn an_absent_object_is_null() {
    check(
        &[
            "oldObject == null",
            "!has(oldObject.spec)",
            "namespaceObject == null",
        ],
        Ok(true),
    );
}

#[test]
fn a_false_condition_decides_before_an_error() {
    check(&["object.missing == 1", "false"], Ok(false));
}

#[test]
fn errors_are_reported_together() {
    check(
        &["object.missing == 1", "true"],
        Err("expression 'object.missing == 1' resulted in error: no such key: missing"),
    );
    check(
        &["object.a == 1", "object.a == 1", "object.b == 1"],
        Err(
            "[expression 'object.a == 1' resulted in error: no such key: a, expression 'object.b == 1' resulted in error: no such key: b]",
        ),
    );
    check(
        &["1"],
        Err("compilation error: must evaluate to bool but got int"),
    );
}

/// Costs about a quarter of a million.
const EXPENSIVE: &str = "lists.range(250).all(a, lists.range(250).all(b, a + b >= 0))";

#[test]
fn conditions_have_a_budget_together() {
    let expensive = vec![EXPENSIVE; 12];
    check(
        &expensive,
        Err("validation failed due to running out of cost budget, no further validation rules will be run"),
    );
    let too_expensive = "lists.range(1000).all(a, lists.range(1000).all(b, a + b >= 0))";
    let error = format!(
        "expression '{too_expensive}' resulted in error: operation cancelled: actual cost limit exceeded"
    );
    check(&[too_expensive], Err(&error));
}

fn evaluate(variables: &[(&str, &str)], source: &str) -> Result<String, String> {
    let optional = OptionalVariables {
        params: true,
        authorizer: true,
    };
    let mut compiler = Compiler::with_composition();
    let mut compiled = Vec::new();
    for (name, source) in variables {
        let expression = CompiledExpression::new(source, compiler.add_variable(name, source, optional));
        compiled.push(CompiledVariable {
            name: (*name).to_owned(),
            expression,
        });
    }
    let expression = CompiledExpression::new(source, compiler.compile(source, optional, ResultType::Any));
    with_inputs(|inputs| {
        let mut evaluator = Evaluator::new(inputs, &compiled, BUDGET);
        let outcome = evaluator
            .evaluate(&expression)
            .map_err(|error| error.to_string())?;
        outcome.map(|value: Value<'_>| display(&value))
    })
}

#[test]
fn variables_are_evaluated_when_they_are_used() {
    let variables = [
        ("replicas", "object.spec.replicas"),
        ("next", "variables.replicas + 1"),
        ("broken", "object.missing"),
        ("invalid", "1 + 'a'"),
    ];
    let check = |source: &str, expected: Result<&str, &str>| {
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(evaluate(&variables, source), expected, "{source}");
    };
    check("variables.next", Ok("4"));
    check("has(variables.next)", Ok("true"));
    check(
        "variables.broken",
        Err(
            r#"expression 'variables.broken' resulted in error: composited variable "broken" fails to evaluate: no such key: missing"#,
        ),
    );
    check("variables.broken == 1 || true", Ok("true"));
    let error = evaluate(&variables, "variables.invalid").unwrap_err();
    assert!(
        error.contains(r#"composited variable "invalid" fails to compile: compilation failed: ERROR"#),
        "{error}"
    );
}

#[test]
fn a_variable_that_several_expressions_use_is_charged_once() {
    let variables = [("expensive", EXPENSIVE)];
    let twice = evaluate(&variables, "variables.expensive && variables.expensive");
    assert_eq!(twice, Ok("true".to_owned()));
}
