//! Tests of configurations.

use setpoint_api::SystemClock;

use super::*;

fn parse(text: &str) -> Result<HookConfig, String> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    HookConfig::parse(text, &clock)
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(parse(text).unwrap().describe(), expected);
}

#[track_caller]
fn check_invalid(text: &str, expected: &str) {
    let error = parse(text).unwrap_err();
    assert!(error.contains(expected), "{error}");
}

/// TO8
#[tokio::test]
async fn yaml_and_json_are_read() {
    check("configVersion: v1\nonStartup: 10\n", "OnStartup:10");
    check(r#"{"configVersion":"v1","onStartup":1}"#, "OnStartup:1");
    check(
        "configVersion: v1\nschedule:\n- crontab: '*/5 * * * * *'\n- crontab: '0 1 * * *'\n",
        "Schedules: '*/5 * * * * *', '0 1 * * *'",
    );
    check(
        "configVersion: v1\nkubernetes:\n- kind: po\n  jqFilter: .metadata.labels\nsettings:\n  executionMinInterval: 3s\n  executionBurst: 2\n",
        "Watch k8s kinds: 'po', Rate: 3s/2",
    );
}

#[tokio::test]
async fn the_legacy_form_is_read() {
    check(
        r#"{"onStartup":5,"schedule":[{"crontab":"* * * * *"}],"onKubernetesEvent":[{"kind":"pod","event":["add"]}]}"#,
        "OnStartup:5, Schedules: '* * * * *', Watch k8s kinds: 'pod'",
    );
}

#[tokio::test]
async fn defaults_are_those_of_upstream() {
    let config =
        parse("configVersion: v1\nkubernetes:\n- kind: Pod\n  waitForSynchronization: false\n").unwrap();
    let binding = &config.kubernetes[0];
    assert_eq!(binding.options.name, "kubernetes");
    assert_eq!(binding.options.queue, "main");
    assert_eq!(binding.events, WatchEvent::ALL);
    assert!(
        binding.execute_on_synchronization && binding.keep_full_objects && binding.wait_for_synchronization
    );
}

#[tokio::test]
async fn a_binding_of_a_group_includes_the_snapshots_of_the_group() {
    let config = parse(
        "configVersion: v1\nschedule:\n- crontab: '* * * * *'\n  group: g\nkubernetes:\n- {name: a, kind: Pod, group: g, includeSnapshotsFrom: [c]}\n- {name: b, kind: Pod, group: g}\n- {name: c, kind: Pod}\n",
    )
    .unwrap();
    assert_eq!(config.schedules[0].options.include_snapshots_from, ["a", "b"]);
    assert_eq!(
        config.kubernetes[0].options.include_snapshots_from,
        ["c", "a", "b"]
    );
    assert!(config.kubernetes[2].options.include_snapshots_from.is_empty());
}

#[tokio::test]
async fn invalid_configurations_are_reported_with_their_binding() {
    check_invalid(
        "configVersion: v9\nonStartup: 1\n",
        "'configVersion' value 'v9' is unsupported",
    );
    check_invalid("configVersion: v1\n", "at least 1 binding");
    check_invalid("configVersion: v1\nonStartUp: 1\n", "onStartUp");
    check_invalid("just text", "config unmarshal");
    check_invalid(
        "configVersion: v1\nschedule:\n- crontab: '* * * * *'\n- crontab: '99 * * * *'\n- crontab: x\n",
        "invalid schedule config [1]: crontab is invalid: end of range (99) above maximum (59): 99; \
         invalid schedule config [2]: crontab is invalid: expected 5 or 6 fields, found 1: x",
    );
    check_invalid(
        "configVersion: v1\nkubernetes:\n- kind: Pod\n  jqFilter: '.a |'\n",
        "invalid kubernetes config [0]: jqFilter: invalid jq program",
    );
    check_invalid(
        "configVersion: v1\nkubernetes:\n- kind: Pod\n  includeSnapshotsFrom: [x]\n",
        "'x' binding name not found",
    );
    check_invalid(
        "configVersion: v1\nkubernetes:\n- kind: Pod\n  executeHookOnEvent: [Changed]\n",
        "Changed",
    );
    check_invalid(
        "configVersion: v1\nkubernetes:\n- kind: Pod\n  nameSelector: {matchNames: [a]}\n  fieldSelector: {matchExpressions: [{field: metadata.name, operator: '=', value: b}]}\n",
        "mutually exclusive",
    );
}

const VALIDATING: &str = "configVersion: v1
kubernetes:
- {name: pods, kind: Pod, group: g}
kubernetesValidating:
- name: Policy.Example.com
  group: g
  namespace: {labelSelector: {matchLabels: {a: b}}}
  rules:
  - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [Deployments], scope: Namespaced}
";

#[tokio::test]
async fn bindings_of_webhooks_are_read() {
    let valid = VALIDATING.replace("Policy.Example.com", "policy.example.com");
    check(
        &valid,
        "Watch k8s kinds: 'Pod', Validate k8s kinds: 'deployments'",
    );
    let config = parse(&valid).unwrap();
    let binding = &config.validating[0];
    assert_eq!(binding.options.include_snapshots_from, ["pods"]);
    assert_eq!(binding.webhook_id(), "policy-example-com");
    let webhook = serde_json::to_value(&binding.webhook).unwrap();
    let expected = serde_json::json!({
        "admissionReviewVersions": ["v1", "v1beta1"], "clientConfig": {}, "matchPolicy": "Equivalent",
        "name": "policy.example.com", "namespaceSelector": {"matchLabels": {"a": "b"}},
        "rules": [{
            "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["Deployments"],
            "scope": "Namespaced",
        }],
        "sideEffects": "None", "timeoutSeconds": 10,
    });
    assert_eq!(webhook, expected);
    check(
        "configVersion: v1\nkubernetesCustomResourceConversion:\n- name: a\n  crdName: b.example.com\n  conversions: [{fromVersion: v1, toVersion: v2}]\n",
        "Conversion for crds: 'b.example.com'",
    );
}

#[tokio::test]
async fn invalid_bindings_of_webhooks_are_reported() {
    check_invalid(
        VALIDATING,
        "invalid kubernetesValidating config [0]: name: Invalid value: \"Policy.Example.com\"",
    );
    let mutating =
        |more: &str| format!("configVersion: v1\nkubernetesMutating:\n- {{name: a.b.c, {more}}}\n");
    check_invalid(&mutating("timeoutSeconds: 31"), "between 1 and 30 seconds");
    check_invalid(&mutating("failurePolicy: Never"), "failurePolicy is \"Never\"");
    check_invalid(
        &mutating("includeSnapshotsFrom: [x]"),
        "'x' binding name not found",
    );
    check_invalid(
        &mutating("rules: [{apiGroups: [''], apiVersions: [v1], operations: [GET], resources: [pods]}]"),
        "operations is \"GET\"",
    );
    check_invalid(
        "configVersion: v1\nkubernetesMutating: [{name: a.b.c}, {name: a.b.c}]\n",
        "invalid kubernetesMutating config [1]: name: Duplicate value",
    );
}
