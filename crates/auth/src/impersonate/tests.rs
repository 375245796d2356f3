//! Impersonation in all modes.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::authorize::{Rbac, without_rbac};
use crate::fixtures::{TestCaches, now};

const LIST: Attributes<'static> = Attributes {
    verb: "list",
    target: AccessTarget::Resource {
        group: "",
        resource: "configmaps",
        subresource: "",
        namespace: "o-http",
        name: "",
    },
    version: "",
    fields: None,
};

fn requested(name: &str, groups: &[&str]) -> RequestedUser {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    RequestedUser {
        name: name.to_owned(),
        groups,
        ..RequestedUser::default()
    }
}

#[track_caller]
fn check_admin(name: &str, groups: &[&str], expected: &[&str]) {
    let admin = User::new("kubernetes-admin", &[User::MASTERS]);
    let found = now(impersonate(
        &without_rbac(),
        &admin,
        &requested(name, groups),
        &LIST,
    ))
    .unwrap();
    assert_eq!(found.user, User::new(name, expected));
}

/// Impersonates as a caller with a ClusterRoleBinding to these rules.
#[track_caller]
fn check_rules(rules: &Value, caller: &User, requested: &RequestedUser, expected: Result<&str, &str>) {
    let caches = TestCaches::with(&[
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
               "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": caller.name}]}),
    ]);
    let rbac = Arc::new(Rbac::new(caches));
    let found = now(impersonate(&rbac, caller, requested, &LIST));
    let found = found
        .as_ref()
        .map(|found| found.constraint)
        .map_err(|status| status.message.as_str());
    assert_eq!(found, expected);
}

#[test]
fn an_administrator_may_impersonate_any_user() {
    check_admin("alice", &[], &["system:authenticated"]);
    check_admin("alice", &["devs"], &["devs", "system:authenticated"]);
    check_admin("alice", &["system:unauthenticated"], &["system:unauthenticated"]);
    check_admin("system:anonymous", &[], &["system:unauthenticated"]);
    check_admin(
        "alice",
        &[User::MASTERS],
        &["system:masters", "system:authenticated"],
    );
}

#[test]
fn a_service_account_is_in_its_groups() {
    check_admin(
        "system:serviceaccount:ns1:sa1",
        &[],
        &[
            "system:serviceaccounts",
            "system:serviceaccounts:ns1",
            "system:authenticated",
        ],
    );
}

#[test]
fn a_node_is_in_the_group_of_nodes() {
    check_admin("system:node:n1", &[], &["system:nodes", "system:authenticated"]);
}

#[test]
fn other_users_may_not_impersonate() {
    let message = r#"configmaps is forbidden: User "system:anonymous" cannot impersonate-on:user-info:list resource "configmaps" in API group "" in the namespace "o-http""#;
    let status = now(impersonate(
        &without_rbac(),
        &User::anonymous(),
        &requested("alice", &[]),
        &LIST,
    ))
    .unwrap_err();
    assert_eq!((status.code, status.message.as_str()), (403, message));
}

#[test]
fn groups_without_a_user_name_are_rejected() {
    let message = r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"system:masters"}, Extra:map[string][]string(nil)} without impersonating a user name"#;
    let admin = User::new("kubernetes-admin", &[User::MASTERS]);
    let requested = requested("", &[User::MASTERS]);
    let status = now(impersonate(&without_rbac(), &admin, &requested, &LIST)).unwrap_err();
    assert_eq!((status.code, status.message.as_str()), (400, message));
}

#[test]
fn legacy_impersonation_checks_each_attribute() {
    let alice = User::new("alice", &[]);
    let rules = json!([{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"]}]);
    check_rules(&rules, &alice, &requested("bob", &[]), Ok(""));
    let message = r#"configmaps is forbidden: User "alice" cannot impersonate-on:user-info:list resource "configmaps" in API group "" in the namespace "o-http""#;
    check_rules(&rules, &alice, &requested("carol", &[]), Err(message));
    check_rules(&rules, &alice, &requested("bob", &[User::MASTERS]), Err(message));
}

#[test]
fn constrained_impersonation_allows_only_what_its_rules_name() {
    let alice = User::new("alice", &[]);
    let be = json!({"verbs": ["impersonate:user-info"], "apiGroups": ["authentication.k8s.io"], "resources": ["users"]});
    let act =
        json!({"verbs": ["impersonate-on:user-info:list"], "apiGroups": [""], "resources": ["configmaps"]});
    check_rules(
        &json!([be, act]),
        &alice,
        &requested("bob", &[]),
        Ok("impersonate:user-info"),
    );
    let message = r#"users.authentication.k8s.io "bob" is forbidden: User "alice" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope"#;
    check_rules(&json!([act]), &alice, &requested("bob", &[]), Err(message));
}

#[test]
fn constrained_impersonation_of_masters_is_forbidden() {
    let alice = User::new("alice", &[]);
    let rules = json!([
        {"verbs": ["impersonate:user-info"], "apiGroups": ["authentication.k8s.io"], "resources": ["*"]},
        {"verbs": ["impersonate-on:user-info:list"], "apiGroups": [""], "resources": ["configmaps"]},
    ]);
    let message = r#"groups.authentication.k8s.io "system:masters" is forbidden: User "alice" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope: impersonating the system:masters group is not allowed"#;
    check_rules(&rules, &alice, &requested("bob", &[User::MASTERS]), Err(message));
}

#[test]
fn a_service_account_may_impersonate_its_own_node() {
    let mut agent = User::new("system:serviceaccount:default:agent", &[]);
    agent.extra = BTreeMap::from([(NODE_NAME.to_owned(), vec!["n1".to_owned()])]);
    let rules = json!([
        {"verbs": ["impersonate:associated-node"], "apiGroups": ["authentication.k8s.io"], "resources": ["nodes"]},
        {"verbs": ["impersonate-on:associated-node:list"], "apiGroups": [""], "resources": ["configmaps"]},
    ]);
    let own = requested("system:node:n1", &[]);
    check_rules(&rules, &agent, &own, Ok("impersonate:associated-node"));
    let message = r#"configmaps is forbidden: User "system:serviceaccount:default:agent" cannot impersonate-on:arbitrary-node:list resource "configmaps" in API group "" in the namespace "o-http""#;
    check_rules(&rules, &agent, &requested("system:node:n2", &[]), Err(message));
}
