//! AuthorizationConfigurations, valid and invalid.

use super::*;

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n";

fn load(text: &str) -> Result<Vec<AuthorizerConfig>, String> {
    parse(&format!("{HEAD}{text}")).map_err(|error| error.to_string())
}

#[track_caller]
fn check_error(authorizers: &str, expected: &str) {
    assert_eq!(
        load(&format!("authorizers: {authorizers}")).unwrap_err(),
        expected
    );
}

/// A webhook with the kubeconfig in this file and these further fields.
fn hook(file: &Path, fields: &str) -> String {
    let file = file.display();
    format!(
        "authorizers:
- type: Webhook
  name: hook
  webhook:
    timeout: 3s
    subjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {file}}}
{fields}
- {{type: RBAC, name: rbac}}
"
    )
}

#[test]
fn authorizers_are_in_order_with_the_settings_of_webhooks() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let fields = "    authorizedTTL: 1m30s\n    cacheUnauthorizedRequests: false\n";
    let webhook = WebhookConfig {
        name: "hook".to_owned(),
        options: WebhookOptions {
            version: "v1".to_owned(),
            authorized_ttl: Duration::from_secs(90),
            unauthorized_ttl: Duration::ZERO,
            failure_policy: FailurePolicy::Deny,
            match_conditions: MatchConditions::default(),
        },
        timeout: Duration::from_secs(3),
        kubeconfig: file.path().to_owned(),
    };
    assert_eq!(
        load(&hook(file.path(), fields)),
        Ok(vec![AuthorizerConfig::Webhook(webhook), AuthorizerConfig::Rbac])
    );
}

#[test]
fn match_conditions_are_compiled() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let with = |fields: &str| load(&hook(file.path(), fields)).map(drop);
    let version = "    matchConditionSubjectAccessReviewVersion: v1\n";
    assert_eq!(
        with(&format!(
            "{version}    matchConditions: [{{expression: 'true'}}]\n"
        )),
        Ok(())
    );
    assert_eq!(
        with(&format!("{version}    matchConditions: [{{expression: '1'}}]\n")),
        Err(r#"authorizers[0].matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int"#.to_owned())
    );
    assert_eq!(
        with("    matchConditions: [{expression: 'true'}]\n"),
        Err("authorizers[0].matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified".to_owned())
    );
}

#[test]
fn types_and_names_are_validated() {
    check_error(
        "[]",
        "authorizers: Required value: at least one authorization mode must be defined",
    );
    check_error(
        "[{type: Magic, name: magic}]",
        r#"authorizers[0].type: Unsupported value: "Magic": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook""#,
    );
    check_error(
        "[{type: ABAC, name: abac}]",
        r#"authorizers[0].type: Invalid value: "ABAC": ABAC is not supported; use RBAC"#,
    );
    check_error(
        "[{type: RBAC, name: rbac}, {type: RBAC, name: x}]",
        r#"authorizers[1].type: Duplicate value: "RBAC""#,
    );
    check_error(
        "[{type: Node, name: x}]",
        r#"authorizers[0].name: Invalid value: "x": expected name node for authorizer Node instead of x"#,
    );
    check_error(
        "[{type: Webhook, name: hook}]",
        "authorizers[0].webhook: Required value: required when type=Webhook",
    );
}

#[test]
fn settings_of_webhooks_are_required() {
    let error = load("authorizers: [{type: Webhook, name: hook, webhook: {}}]").unwrap_err();
    for field in [
        "timeout",
        "subjectAccessReviewVersion",
        "failurePolicy",
        "connectionInfo.type",
    ] {
        let expected = format!("authorizers[0].{field}: Required value");
        assert!(error.contains(&expected), "{field}: {error}");
    }
}

#[test]
fn a_changed_file_keeps_its_types_and_adds_neither_node_nor_rbac() {
    use AuthorizerConfig::{AlwaysAllow, Node, Rbac};
    assert_eq!(check_reload(&[Rbac], &[Rbac, AlwaysAllow]), Ok(()));
    assert_eq!(check_reload(&[Node, Rbac], &[Rbac, Node]), Ok(()));
    assert_eq!(
        check_reload(&[Node, Rbac], &[Node]),
        Err("missing required types: [RBAC]".to_owned())
    );
    assert_eq!(
        check_reload(&[Rbac], &[Rbac, Node]),
        Err("authorizer type Node is not allowed if it was not enabled at initial server startup".to_owned())
    );
}
