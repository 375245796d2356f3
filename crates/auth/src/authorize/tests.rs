//! Decisions of the chain without RBAC, and the messages of rejected requests.

use super::*;
use crate::fixtures::now;

const POD_LOG: AccessTarget<'static> = AccessTarget::Resource {
    group: "",
    resource: "pods",
    subresource: "log",
    namespace: "default",
    name: "web",
};
const SETS: AccessTarget<'static> = AccessTarget::Resource {
    group: "apps",
    resource: "replicasets",
    subresource: "",
    namespace: "default",
    name: "",
};
const NODES: AccessTarget<'static> = AccessTarget::Resource {
    group: "",
    resource: "nodes",
    subresource: "",
    namespace: "",
    name: "",
};

/// An empty message means: allowed.
#[track_caller]
fn check_message(user: &User, verb: &str, object: AccessTarget<'_>, message: &str) {
    let result = now(check(&without_rbac(), user, &Attributes::new(verb, object)));
    assert_eq!(
        result.err().map(|status| status.message).unwrap_or_default(),
        message
    );
}

#[test]
fn masters_may_do_everything() {
    let admin = User::new("kubernetes-admin", &[User::MASTERS, User::AUTHENTICATED]);
    check_message(&admin, "delete", NODES, "");
    check_message(&admin, "get", AccessTarget::Path("/metrics"), "");
}

#[test]
fn everyone_may_read_health_and_version() {
    for path in [
        "/healthz",
        "/livez",
        "/livez/etcd",
        "/readyz",
        "/readyz/ping",
        "/version",
        "/version/",
    ] {
        check_message(&User::anonymous(), "get", AccessTarget::Path(path), "");
    }
}

#[test]
fn other_users_are_forbidden_with_verb_and_resource() {
    let alice = User::new("alice", &[User::AUTHENTICATED]);
    check_message(
        &alice,
        "list",
        SETS,
        r#"replicasets.apps is forbidden: User "alice" cannot list resource "replicasets" in API group "apps" in the namespace "default""#,
    );
    check_message(
        &User::anonymous(),
        "list",
        NODES,
        r#"nodes is forbidden: User "system:anonymous" cannot list resource "nodes" in API group "" at the cluster scope"#,
    );
    check_message(
        &alice,
        "get",
        POD_LOG,
        r#"pods "web" is forbidden: User "alice" cannot get resource "pods/log" in API group "" in the namespace "default""#,
    );
}

#[test]
fn other_paths_are_forbidden_by_name() {
    let message = r#"forbidden: User "system:anonymous" cannot get path "/metrics""#;
    check_message(&User::anonymous(), "get", AccessTarget::Path("/metrics"), message);
    let message = r#"forbidden: User "system:anonymous" cannot post path "/version""#;
    check_message(
        &User::anonymous(),
        "post",
        AccessTarget::Path("/version"),
        message,
    );
}

#[test]
fn a_path_that_only_starts_like_a_public_one_is_forbidden() {
    let message = r#"forbidden: User "system:anonymous" cannot get path "/livezz""#;
    check_message(&User::anonymous(), "get", AccessTarget::Path("/livezz"), message);
}
