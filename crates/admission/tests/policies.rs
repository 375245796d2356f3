//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy, through a registry with the default plugins.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use cluster::Cluster;
use serde_json::{Value, json};
use setpoint_api::call::Payload;
use setpoint_api::options::WriteOptions;
use setpoint_api::{Gvr, Key, Status, Target, User, Verb};

const VALIDATING: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
const VALIDATING_BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";
const MUTATING: &str = "mutatingadmissionpolicies.admissionregistration.k8s.io";
const MUTATING_BINDINGS: &str = "mutatingadmissionpolicybindings.admissionregistration.k8s.io";

/// A cluster with the ConfigMap `limits`, which is the parameter of policies that have one.
async fn start() -> Cluster {
    let cluster = Cluster::ready().await;
    cluster
        .create("configmaps default/limits", r#"{"data": {"max": "3"}}"#)
        .await
        .unwrap();
    cluster
}

fn config_maps() -> Value {
    json!({"resourceRules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"],
    }]})
}

/// Creates a policy of this spec, with a binding of that spec.
async fn bind(cluster: &Cluster, (policies, bindings): (&str, &str), mut spec: Value, binding: Value) {
    let name = format!("{policies} /p");
    if spec["matchConstraints"].is_null() {
        spec["matchConstraints"] = config_maps();
    }
    let policy = json!({"spec": spec});
    cluster.create(&name, &policy.to_string()).await.unwrap();
    let mut own = json!({"policyName": "p"});
    own.as_object_mut()
        .unwrap()
        .extend(binding.as_object().unwrap().clone());
    let binding = json!({"spec": own});
    cluster
        .create(&format!("{bindings} /b"), &binding.to_string())
        .await
        .unwrap();
    cluster.wait_for_caches().await;
}

fn shown(outcome: Result<Value, Status>) -> String {
    match outcome {
        Ok(object) => object["data"].to_string(),
        Err(status) => format!("{} {} {}", status.code, status.reason, status.message),
    }
}

/// Creates the ConfigMap `x` with `data: {k: v}` under a validating policy.
async fn validate(spec: Value, binding: Value) -> String {
    let cluster = start().await;
    bind(&cluster, (VALIDATING, VALIDATING_BINDINGS), spec, binding).await;
    shown(
        cluster
            .create("configmaps default/x", r#"{"data": {"k": "v"}}"#)
            .await,
    )
}

async fn check(spec: Value, expected: &str) {
    let outcome = validate(spec, json!({"validationActions": ["Deny"]})).await;
    assert_eq!(outcome, expected);
}

const ADMITTED: &str = r#"{"k":"v"}"#;

fn denied(message: &str) -> String {
    format!(
        "422 Invalid configmaps \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: {message}"
    )
}

#[tokio::test]
async fn a_validation_that_is_false_rejects_the_request() {
    check(
        json!({"validations": [{"expression": "object.data.k == 'v'"}]}),
        ADMITTED,
    )
    .await;
    check(
        json!({"validations": [{"expression": "object.data.k == 'w'"}]}),
        &denied("failed expression: object.data.k == 'w'"),
    )
    .await;
    check(
        json!({"validations": [{"expression": "false", "message": "m", "messageExpression": "'is ' + object.metadata.name"}]}),
        &denied("is x"),
    )
    .await;
    check(
        json!({"validations": [{"expression": "false", "message": "m", "messageExpression": "string(object.missing)"}]}),
        &denied("m"),
    )
    .await;
}

/// They are computed only if a webhook or a policy may see them.
#[tokio::test]
async fn a_policy_sees_the_managed_fields_of_a_binding() {
    let cluster = start().await;
    let spec = json!({
        "matchConstraints": {"resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"],
        }]},
        "validations": [{"expression": "object.metadata.managedFields.size() == 1"}],
    });
    let deny = json!({"validationActions": ["Deny"]});
    bind(&cluster, (VALIDATING, VALIDATING_BINDINGS), spec, deny).await;
    let pod = r#"{"spec": {"containers": [{"name": "c", "image": "a"}]}}"#;
    cluster.create("pods default/web", pod).await.unwrap();
    let binding = json!({"metadata": {"name": "web"}, "target": {"name": "n1"}});
    let target =
        Target::object(Gvr::new("", "v1", "pods"), &Key::new("default", "web")).subresource("binding");
    let verb = Verb::Create(Payload::json(binding.to_string()), WriteOptions::default());
    cluster
        .call(User::component("tester"), target, verb)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_reason_decides_the_code() {
    let expected = denied("failed expression: false").replace("422 Invalid", "403 Forbidden");
    check(
        json!({"validations": [{"expression": "false", "reason": "Forbidden"}]}),
        &expected,
    )
    .await;
}

#[tokio::test]
async fn errors_follow_the_failure_policy() {
    let spec = |policy: &str| json!({"failurePolicy": policy, "validations": [{"expression": "object.missing == 1"}]});
    let message = "expression 'object.missing == 1' resulted in error: no such key: missing";
    check(spec("Fail"), &denied(message)).await;
    check(spec("Ignore"), ADMITTED).await;
}

#[tokio::test]
async fn match_conditions_decide_first() {
    let spec = |condition: &str| json!({"matchConditions": [{"name": "c", "expression": condition}], "validations": [{"expression": "false"}]});
    check(spec("object.data.k == 'w'"), ADMITTED).await;
    check(spec("object.data.k == 'v'"), &denied("failed expression: false")).await;
    let message = "expression 'object.missing == 1' resulted in error: no such key: missing";
    check(spec("object.missing == 1"), &denied(message)).await;
}

#[tokio::test]
async fn expressions_read_the_request_and_the_namespace() {
    for expression in [
        "request.operation == 'CREATE' && request.name == 'x' && request.namespace == 'default'",
        "request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps'",
        "request.options.kind == 'CreateOptions' && !has(request.options.fieldManager) && !request.dryRun",
        "request.userInfo.username == 'tester' && !has(request.userInfo.extra) && !has(request.subResource)",
        "namespaceObject.metadata.name == 'default' && namespaceObject.status.phase == 'Active'",
        "oldObject == null && !has(oldObject.data) && has(object.metadata.uid)",
        "variables.k == 'v'",
    ] {
        let variables = json!([{"name": "k", "expression": "object.data.k"}]);
        let spec = json!({"variables": variables, "validations": [{"expression": expression}]});
        check(spec, ADMITTED).await;
    }
}

#[tokio::test]
async fn a_warning_does_not_reject() {
    let spec = json!({"validations": [{"expression": "false"}]});
    assert_eq!(
        validate(spec, json!({"validationActions": ["Warn", "Audit"]})).await,
        ADMITTED
    );
}

#[tokio::test]
async fn parameters_are_named_or_selected() {
    let spec = || {
        json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
               "validations": [{"expression": "params.data.max == '4'", "messageExpression": "'max is ' + params.data.max"}]})
    };
    let with = |reference: Value| json!({"validationActions": ["Deny"], "paramRef": reference});
    let by_name = json!({"name": "limits", "parameterNotFoundAction": "Deny"});
    assert_eq!(validate(spec(), with(by_name)).await, denied("max is 3"));
    let all = json!({"selector": {}, "parameterNotFoundAction": "Deny"});
    assert!(validate(spec(), with(all)).await.starts_with("422"));
    let missing = |action: &str| json!({"name": "none", "parameterNotFoundAction": action});
    assert_eq!(validate(spec(), with(missing("Allow"))).await, ADMITTED);
    assert_eq!(
        validate(spec(), with(missing("Deny"))).await,
        denied(
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        )
    );
    let mut unknown = spec();
    unknown["paramKind"]["kind"] = "Nothing".into();
    assert_eq!(
        validate(unknown, json!({"validationActions": ["Deny"]})).await,
        "422 Invalid configmaps \"x\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by paramKind: '/v1, Kind=Nothing'"
    );
}

#[tokio::test]
async fn deletions_are_validated_and_policies_are_exempt() {
    let cluster = start().await;
    let everything = json!({"resourceRules": [{
        "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["*"],
    }]});
    let spec = json!({"matchConstraints": everything, "validations": [{"expression": "object == null && oldObject.metadata.name == 'y'"}]});
    bind(
        &cluster,
        (VALIDATING, VALIDATING_BINDINGS),
        spec,
        json!({"validationActions": ["Deny"]}),
    )
    .await;
    let status = cluster.delete("configmaps default/limits").await.unwrap_err();
    assert_eq!(status.code, 422);
    cluster.delete(&format!("{VALIDATING} /p")).await.unwrap();
}

/// Creates the ConfigMap `x` with `data: {k: v}` under a mutating policy.
async fn check_mutation(spec: Value, expected: &str) {
    let cluster = start().await;
    let mut spec = spec;
    if spec["reinvocationPolicy"].is_null() {
        spec["reinvocationPolicy"] = "Never".into();
    }
    bind(&cluster, (MUTATING, MUTATING_BINDINGS), spec, json!({})).await;
    let outcome = cluster
        .create("configmaps default/x", r#"{"data": {"k": "v"}}"#)
        .await;
    assert_eq!(shown(outcome), expected);
}

fn apply(expression: &str) -> Value {
    json!({"mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]})
}

fn json_patch(expression: &str) -> Value {
    json!({"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]})
}

fn rejected(message: &str) -> String {
    format!("403 Invalid policy 'p' with binding 'b' denied request: {message}")
}

#[tokio::test]
async fn a_configuration_is_merged_into_the_object() {
    check_mutation(
        apply("Object{data: {'z': object.metadata.name}}"),
        r#"{"k":"v","z":"x"}"#,
    )
    .await;
    check_mutation(apply("Object{}"), ADMITTED).await;
    check_mutation(
        apply("Object{data: Object.metadata{z: 'q'}}"),
        &rejected(r#"type mismatch: unexpected type name "Object.metadata", expected "Object.data", which matches field name path from root Object type"#),
    )
    .await;
    check_mutation(
        apply("Object{spec: Object.spec{x: 1}}"),
        &rejected("error applying patch: failed to convert patch object to typed object: .spec: field not declared in schema"),
    )
    .await;
}

#[tokio::test]
async fn a_json_patch_is_executed() {
    check_mutation(
        json_patch("[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('z'), value: '1'}]"),
        r#"{"k":"v","z":"1"}"#,
    )
    .await;
    check_mutation(
        json_patch(
            "[JSONPatch{op: 'test', path: '/data/k', value: 'w'}, JSONPatch{op: 'remove', path: '/data/k'}]",
        ),
        ADMITTED,
    )
    .await;
    check_mutation(
        json_patch("[JSONPatch{op: 'remove', path: '/data/z'}]"),
        &rejected("JSON Patch: error in remove for path: '/data/z': Unable to remove nonexistent key: z: missing value"),
    )
    .await;
    check_mutation(
        json_patch("[JSONPatch{op: 'add', path: '/spec', value: 1}]"),
        "500 InternalError Internal error occurred: strict decoding error: unknown field \"spec\"",
    )
    .await;
}

#[tokio::test]
async fn mutations_run_in_order_and_ignored_errors_change_nothing() {
    let mut spec = apply("Object{data: {'a': '1'}}");
    let second = apply("Object{data: {'b': object.data.a + '2'}}")["mutations"][0].clone();
    spec["mutations"].as_array_mut().unwrap().push(second);
    check_mutation(spec, r#"{"a":"1","b":"12","k":"v"}"#).await;
    let mut failing = apply("Object{data: {'a': object.missing}}");
    failing["failurePolicy"] = "Ignore".into();
    check_mutation(failing, ADMITTED).await;
}

#[tokio::test]
async fn a_message_that_exceeds_the_budget_fails_a_policy_whose_validations_pass() {
    let cluster = start().await;
    // Each of the twelve messages costs about 900,000.
    let expensive = "string([1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(i, !object.data.k.contains('b')))";
    let validation = json!({"expression": "true", "messageExpression": expensive});
    let spec = json!({"validations": vec![validation; 12]});
    let deny = json!({"validationActions": ["Deny"]});
    bind(&cluster, (VALIDATING, VALIDATING_BINDINGS), spec, deny).await;
    let long = json!({"data": {"k": "a".repeat(900_000)}}).to_string();
    let outcome = shown(cluster.create("configmaps default/x", &long).await);
    let why = "failed messageExpression: validation failed due to running out of cost budget, no further validation rules will be run";
    assert_eq!(outcome, denied(why));
    let short = r#"{"data": {"k": "v"}}"#;
    assert_eq!(
        shown(cluster.create("configmaps default/x", short).await),
        ADMITTED
    );
}
