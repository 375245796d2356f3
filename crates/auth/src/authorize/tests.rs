//! Who may do what, and what the others are told.

use super::*;

const POD_LOG: Object<'static> = Object::Resource {
    group: "",
    resource: "pods",
    subresource: "log",
    namespace: "default",
    name: "web",
};
const SETS: Object<'static> = Object::Resource {
    group: "apps",
    resource: "replicasets",
    subresource: "",
    namespace: "default",
    name: "",
};
const NODES: Object<'static> = Object::Resource {
    group: "",
    resource: "nodes",
    subresource: "",
    namespace: "",
    name: "",
};

/// An empty message means: allowed.
#[track_caller]
fn check_refusal(user: &User, verb: &str, object: Object<'_>, message: &str) {
    let told = check(&standard(), user, &Attributes::new(verb, object));
    assert_eq!(
        told.err().map(|status| status.message).unwrap_or_default(),
        message
    );
}

#[test]
fn masters_may_do_everything() {
    let admin = User::new("kubernetes-admin", &[User::MASTERS, User::AUTHENTICATED]);
    check_refusal(&admin, "delete", NODES, "");
    check_refusal(&admin, "get", Object::Path("/metrics"), "");
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
        check_refusal(&User::anonymous(), "get", Object::Path(path), "");
    }
}

#[test]
fn others_are_refused_with_what_they_asked() {
    let alice = User::new("alice", &[User::AUTHENTICATED]);
    check_refusal(
        &alice,
        "list",
        SETS,
        r#"replicasets.apps is forbidden: User "alice" cannot list resource "replicasets" in API group "apps" in the namespace "default""#,
    );
    check_refusal(
        &User::anonymous(),
        "list",
        NODES,
        r#"nodes is forbidden: User "system:anonymous" cannot list resource "nodes" in API group "" at the cluster scope"#,
    );
    check_refusal(
        &alice,
        "get",
        POD_LOG,
        r#"pods "web" is forbidden: User "alice" cannot get resource "pods/log" in API group "" in the namespace "default""#,
    );
}

#[test]
fn other_paths_are_refused_by_name() {
    let told = r#"forbidden: User "system:anonymous" cannot get path "/metrics""#;
    check_refusal(&User::anonymous(), "get", Object::Path("/metrics"), told);
    let told = r#"forbidden: User "system:anonymous" cannot post path "/version""#;
    check_refusal(&User::anonymous(), "post", Object::Path("/version"), told);
}

#[test]
fn a_path_that_only_starts_like_a_public_one_is_refused() {
    let told = r#"forbidden: User "system:anonymous" cannot get path "/livezz""#;
    check_refusal(&User::anonymous(), "get", Object::Path("/livezz"), told);
}
