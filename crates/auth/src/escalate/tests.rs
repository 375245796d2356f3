//! Writes of roles and bindings by users with limited permissions.

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{TestCaches, now};

const API: &str = "rbac.authorization.k8s.io/v1";

/// `escuser` may write roles and bindings in `esc` and read pods there, and holds nothing else.
fn caches(extra: &Value) -> Arc<TestCaches> {
    let mut rules = vec![
        json!({"apiGroups": [GROUP], "resources": ["roles", "rolebindings"], "verbs": ["create", "update", "patch"]}),
        json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}),
    ];
    rules.extend(extra.as_array().cloned().unwrap_or_default());
    TestCaches::with(&[
        json!({"apiVersion": API, "kind": "Role", "metadata": {"name": "rb", "namespace": "esc"}, "rules": rules}),
        json!({"apiVersion": API, "kind": "RoleBinding", "metadata": {"name": "rb", "namespace": "esc"},
               "roleRef": {"kind": "Role", "name": "rb"}, "subjects": [{"kind": "User", "name": "escuser"}]}),
        json!({"apiVersion": API, "kind": "ClusterRole", "metadata": {"name": "cluster-admin"}, "rules": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]}),
    ])
}

/// The error message of a write; empty if it is allowed.
fn error_of(extra: &Value, resource: &str, new: &Value, old: Option<&Value>) -> String {
    let rbac = Arc::new(Rbac::new(caches(extra)));
    let escalation = EscalationCheck::new(rbac.clone(), rbac);
    let tree = |value: &Value| setpoint_schema::to_tree(value).unwrap();
    let old = old.map(tree);
    let user = User::new("escuser", &["system:authenticated"]);
    let checked = now(escalation.check(&user, &Gvr::new(GROUP, "v1", resource), &tree(new), old.as_ref()));
    checked
        .err()
        .map(|status| format!("{} {}", status.code, status.message))
        .unwrap_or_default()
}

#[track_caller]
fn check(resource: &str, new: &Value, expected: &str) {
    assert_eq!(error_of(&json!([]), resource, new, None), expected);
}

fn role(rules: &Value) -> Value {
    json!({"metadata": {"name": "e1", "namespace": "esc"}, "rules": rules})
}

fn binding(kind: &str, name: &str) -> Value {
    json!({"metadata": {"name": "e3", "namespace": "esc"}, "subjects": [],
           "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name}})
}

fn secrets() -> Value {
    json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}])
}

const SECRETS_FORBIDDEN: &str = "403 roles.rbac.authorization.k8s.io \"e1\" is forbidden: user \"escuser\" \
     (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
     {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"list\"]}";

#[test]
fn a_role_with_rules_not_held_is_rejected() {
    check("roles", &role(&secrets()), SECRETS_FORBIDDEN);
    check(
        "roles",
        &role(&json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}])),
        "",
    );
}

#[test]
fn the_escalate_verb_allows_any_role() {
    let extra = json!([{"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["escalate"]}]);
    assert_eq!(error_of(&extra, "roles", &role(&secrets()), None), "");
    let only = json!([{"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["escalate"], "resourceNames": ["e1"]}]);
    assert_eq!(
        error_of(&only, "roles", &role(&secrets()), None),
        SECRETS_FORBIDDEN
    );
    assert_eq!(
        error_of(&only, "roles", &role(&secrets()), Some(&role(&json!([])))),
        ""
    );
}

#[test]
fn binding_a_role_with_rules_not_held_is_rejected() {
    check(
        "rolebindings",
        &binding("ClusterRole", "cluster-admin"),
        "403 rolebindings.rbac.authorization.k8s.io \"e3\" is forbidden: user \"escuser\" \
         (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}",
    );
    check("rolebindings", &binding("Role", "rb"), "");
}

#[test]
fn binding_a_missing_role_is_not_found() {
    let message = r#"404 rolebindings.rbac.authorization.k8s.io "missing" not found"#;
    check("rolebindings", &binding("Role", "missing"), message);
}

#[test]
fn the_bind_verb_allows_any_binding() {
    let extra = json!([{"apiGroups": [GROUP], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["cluster-admin"]}]);
    let new = binding("ClusterRole", "cluster-admin");
    assert_eq!(error_of(&extra, "rolebindings", &new, None), "");
}

#[test]
fn a_change_of_gc_fields_needs_no_permissions() {
    let old = role(&secrets());
    let mut new = old.clone();
    new["metadata"]["finalizers"] = json!(["x"]);
    assert_eq!(error_of(&json!([]), "roles", &new, Some(&old)), "");
    new["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(error_of(&json!([]), "roles", &new, Some(&old)), SECRETS_FORBIDDEN);
}

#[test]
fn aggregation_needs_all_permissions() {
    let new = json!({"metadata": {"name": "e7"}, "rules": [],
                     "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    check(
        "clusterroles",
        &new,
        r#"403 clusterroles.rbac.authorization.k8s.io "e7" is forbidden: must have cluster-admin privileges to use the aggregationRule"#,
    );
}

#[test]
fn masters_may_grant_anything() {
    let rbac = Arc::new(Rbac::new(caches(&json!([]))));
    let escalation = EscalationCheck::new(rbac.clone(), rbac);
    let admin = User::new("admin", &[User::MASTERS]);
    let new = setpoint_schema::to_tree(&role(&secrets())).unwrap();
    let checked = now(escalation.check(&admin, &Gvr::new(GROUP, "v1", "roles"), &new, None));
    assert!(checked.is_ok());
}
