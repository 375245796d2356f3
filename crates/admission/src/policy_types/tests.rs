//! Tests of type checks. The texts are recorded from Kubernetes.

use serde_json::{Value, json};

use super::*;

#[track_caller]
fn check_policy(spec: Value, expected: &[(&str, &str)]) {
    let policy = json!({"spec": spec}).to_string();
    let warnings = check_policy_types(policy.as_bytes(), &setpoint_kinds::builtin());
    let own: Vec<(&str, &str)> = warnings
        .iter()
        .map(|warning| (warning.field_ref.as_str(), warning.warning.as_str()))
        .collect();
    assert_eq!(own, expected);
}

fn rule(group: &str, version: &str, resource: &str) -> Value {
    json!({"resourceRules": [{"apiGroups": [group], "apiVersions": [version], "resources": [resource]}]})
}

#[track_caller]
fn check(rule: Value, expression: &str, expected: &str) {
    let spec = json!({"matchConstraints": rule, "validations": [{"expression": expression}]});
    let expected = [("spec.validations[0].expression", expected)];
    let expected: &[(&str, &str)] = if expected[0].1.is_empty() { &[] } else { &expected };
    check_policy(spec, expected);
}

#[test]
fn fields_and_types_of_the_kind_are_checked() {
    let deployments = || rule("apps", "v1", "deployments");
    check(deployments(), "object.spec.replicas > 1", "");
    check(
        deployments(),
        "object.spec.foo == 1",
        "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'foo'\n | object.spec.foo == 1\n | ...........^\n",
    );
    check(
        deployments(),
        "oldObject.spec.replicas == 'a'",
        "apps/v1, Kind=Deployment: ERROR: <input>:1:25: found no matching overload for '_==_' applied to '(int, string)'\n | oldObject.spec.replicas == 'a'\n | ........................^\n",
    );
    check(
        rule("", "v1", "pods"),
        "object.metadata.creationTimestamp == 'a'",
        "/v1, Kind=Pod: ERROR: <input>:1:35: found no matching overload for '_==_' applied to '(timestamp, string)'\n | object.metadata.creationTimestamp == 'a'\n | ..................................^\n",
    );
    check(rule("", "v1", "secrets"), "object.data['a'] == b'a'", "");
    check(
        rule("policy", "v1", "poddisruptionbudgets"),
        "object.spec.maxUnavailable == 'x'",
        "",
    );
}

#[test]
fn what_has_no_type_in_openapi_is_undefined() {
    check(
        rule("", "v1", "pods"),
        "object.spec.containers[0].resources.limits['memory'] == '1'",
        "/v1, Kind=Pod: ERROR: <input>:1:36: undefined field 'limits'\n | object.spec.containers[0].resources.limits['memory'] == '1'\n | ...................................^\n",
    );
    check(
        rule("apps", "v1", "controllerrevisions"),
        "object.data.x == 1",
        "apps/v1, Kind=ControllerRevision: ERROR: <input>:1:12: undefined field 'x'\n | object.data.x == 1\n | ...........^\n",
    );
    check(
        rule("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
        "object.spec.versions[0].schema.openAPIV3Schema.properties['a'].type == 1",
        "apiextensions.k8s.io/v1, Kind=CustomResourceDefinition: ERROR: <input>:1:63: undefined field 'type'\n | object.spec.versions[0].schema.openAPIV3Schema.properties['a'].type == 1\n | ..............................................................^\n",
    );
    check(
        rule("apps", "v1", "deployments"),
        "authorizer.requestResource.check('a').allowed()",
        "apps/v1, Kind=Deployment: ERROR: <input>:1:11: unexpected failed resolution of 'kubernetes.authorization.Authorizer'\n | authorizer.requestResource.check('a').allowed()\n | ..........^\n",
    );
}

#[test]
fn rules_with_wildcards_and_unknown_resources_are_not_checked() {
    for (group, version, resource) in [
        ("apps", "v1", "*"),
        ("*", "v1", "deployments"),
        ("apps", "*", "deployments"),
        ("apps", "v1", "deployments/scale"),
        ("apps", "v1", "nothings"),
        ("apps", "v9", "deployments"),
    ] {
        check(rule(group, version, resource), "object.foo == 1", "");
    }
}

#[test]
fn every_kind_has_its_line() {
    let error = |kind: &str| {
        format!("{kind}: ERROR: <input>:1:7: undefined field 'foo'\n | object.foo == 1\n | ......^\n")
    };
    let expected = [error("/v1, Kind=Event"), error("events.k8s.io/v1, Kind=Event")];
    check(rule("", "v1", "events"), "object.foo == 1", &expected.join("\n"));
}

#[test]
fn messages_parameters_and_variables_are_checked() {
    let spec = json!({
        "matchConstraints": rule("apps", "v1", "deployments"),
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "variables": [{"name": "x", "expression": "object.spec.replicas"}, {"name": "y", "expression": "object.foo"}],
        "validations": [
            {"expression": "params.data['x'] == '1' && variables.y == 1", "messageExpression": "string(object.foo)"},
            {"expression": "variables.x == 'a'"},
        ],
    });
    check_policy(
        spec,
        &[
            (
                "spec.validations[0].messageExpression",
                "apps/v1, Kind=Deployment: ERROR: <input>:1:14: undefined field 'foo'\n | string(object.foo)\n | .............^\n",
            ),
            (
                "spec.validations[1].expression",
                "apps/v1, Kind=Deployment: ERROR: <input>:1:13: found no matching overload for '_==_' applied to '(int, string)'\n | variables.x == 'a'\n | ............^\n",
            ),
        ],
    );
}
