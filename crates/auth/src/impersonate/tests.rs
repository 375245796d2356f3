//! Who may be whom.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::authorize::{Rbac, standard};
use crate::fixtures::Shelf;

const LIST: Attributes<'static> = Attributes {
    verb: "list",
    object: Object::Resource {
        group: "",
        resource: "configmaps",
        subresource: "",
        namespace: "o-http",
        name: "",
    },
    fields: None,
};

fn wanted(name: &str, groups: &[&str]) -> Wanted {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    Wanted {
        name: name.to_owned(),
        groups,
        ..Wanted::default()
    }
}

#[track_caller]
fn check_admin(name: &str, groups: &[&str], expected: &[&str]) {
    let admin = User::new("kubernetes-admin", &[User::MASTERS]);
    let found = impersonate(&standard(), &admin, &wanted(name, groups), &LIST).unwrap();
    assert_eq!(found.user, User::new(name, expected));
}

/// What alice is told, whom these rules are bound to everywhere.
#[track_caller]
fn check_rules(rules: &Value, caller: &User, wanted: &Wanted, expected: Result<&str, &str>) {
    let shelf = Shelf::of(&[
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
               "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": caller.name}]}),
    ]);
    let rbac = Arc::new(Rbac::new(shelf));
    let found = impersonate(&rbac, caller, wanted, &LIST);
    let found = found
        .as_ref()
        .map(|found| found.constraint)
        .map_err(|refused| refused.message.as_str());
    assert_eq!(found, expected);
}

#[test]
fn an_administrator_may_be_anyone() {
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
fn others_may_be_no_one_else() {
    let told = r#"configmaps is forbidden: User "system:anonymous" cannot impersonate-on:user-info:list resource "configmaps" in API group "" in the namespace "o-http""#;
    let refused = impersonate(&standard(), &User::anonymous(), &wanted("alice", &[]), &LIST).unwrap_err();
    assert_eq!((refused.code, refused.message.as_str()), (403, told));
}

#[test]
fn groups_without_a_name_are_no_user() {
    let told = r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"system:masters"}, Extra:map[string][]string(nil)} without impersonating a user name"#;
    let admin = User::new("kubernetes-admin", &[User::MASTERS]);
    let refused = impersonate(&standard(), &admin, &wanted("", &[User::MASTERS]), &LIST).unwrap_err();
    assert_eq!((refused.code, refused.message.as_str()), (400, told));
}

#[test]
fn the_old_right_needs_each_part() {
    let alice = User::new("alice", &[]);
    let rules = json!([{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"]}]);
    check_rules(&rules, &alice, &wanted("bob", &[]), Ok(""));
    let told = r#"configmaps is forbidden: User "alice" cannot impersonate-on:user-info:list resource "configmaps" in API group "" in the namespace "o-http""#;
    check_rules(&rules, &alice, &wanted("carol", &[]), Err(told));
    check_rules(&rules, &alice, &wanted("bob", &[User::MASTERS]), Err(told));
}

#[test]
fn a_narrow_right_holds_for_what_it_names() {
    let alice = User::new("alice", &[]);
    let be = json!({"verbs": ["impersonate:user-info"], "apiGroups": ["authentication.k8s.io"], "resources": ["users"]});
    let act =
        json!({"verbs": ["impersonate-on:user-info:list"], "apiGroups": [""], "resources": ["configmaps"]});
    check_rules(
        &json!([be, act]),
        &alice,
        &wanted("bob", &[]),
        Ok("impersonate:user-info"),
    );
    let told = r#"users.authentication.k8s.io "bob" is forbidden: User "alice" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope"#;
    check_rules(&json!([act]), &alice, &wanted("bob", &[]), Err(told));
}

#[test]
fn nobody_becomes_a_master_by_a_narrow_right() {
    let alice = User::new("alice", &[]);
    let rules = json!([
        {"verbs": ["impersonate:user-info"], "apiGroups": ["authentication.k8s.io"], "resources": ["*"]},
        {"verbs": ["impersonate-on:user-info:list"], "apiGroups": [""], "resources": ["configmaps"]},
    ]);
    let told = r#"groups.authentication.k8s.io "system:masters" is forbidden: User "alice" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope: impersonating the system:masters group is not allowed"#;
    check_rules(&rules, &alice, &wanted("bob", &[User::MASTERS]), Err(told));
}

#[test]
fn a_service_account_may_be_the_node_it_runs_on() {
    let mut agent = User::new("system:serviceaccount:default:agent", &[]);
    agent.extra = BTreeMap::from([(NODE_NAME.to_owned(), vec!["n1".to_owned()])]);
    let rules = json!([
        {"verbs": ["impersonate:associated-node"], "apiGroups": ["authentication.k8s.io"], "resources": ["nodes"]},
        {"verbs": ["impersonate-on:associated-node:list"], "apiGroups": [""], "resources": ["configmaps"]},
    ]);
    let own = wanted("system:node:n1", &[]);
    check_rules(&rules, &agent, &own, Ok("impersonate:associated-node"));
    let told = r#"configmaps is forbidden: User "system:serviceaccount:default:agent" cannot impersonate-on:arbitrary-node:list resource "configmaps" in API group "" in the namespace "o-http""#;
    check_rules(&rules, &agent, &wanted("system:node:n2", &[]), Err(told));
}
