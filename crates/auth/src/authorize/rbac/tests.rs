//! Bindings and roles, and the decisions that follow.

use serde_json::{Value, json};

use super::*;
use crate::fixtures::TestCaches;

fn role(namespace: &str, name: &str, rules: &Value) -> Value {
    object(
        if namespace.is_empty() {
            "ClusterRole"
        } else {
            "Role"
        },
        namespace,
        name,
        json!({"rules": rules}),
    )
}

fn binding(namespace: &str, name: &str, role: &str, subjects: &Value) -> Value {
    let kind = if namespace.is_empty() {
        "ClusterRoleBinding"
    } else {
        "RoleBinding"
    };
    let (role_kind, role) = role.split_once('/').unwrap();
    object(
        kind,
        namespace,
        name,
        json!({"roleRef": {"kind": role_kind, "name": role}, "subjects": subjects}),
    )
}

fn object(kind: &str, namespace: &str, name: &str, mut rest: Value) -> Value {
    rest["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
    rest["kind"] = json!(kind);
    rest["metadata"] = json!({"name": name, "namespace": namespace});
    rest
}

fn read_pods() -> Value {
    json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}])
}

fn user(name: &str) -> Value {
    json!([{"kind": "User", "name": name}])
}

/// The reason of the decision on reading a pod in a namespace.
#[track_caller]
fn check(objects: &[Value], user: &User, namespace: &str, expected: &str) {
    check_live(&Rbac::new(TestCaches::with(objects)), user, namespace, expected);
}

#[track_caller]
fn check_live(rbac: &Rbac, user: &User, namespace: &str, expected: &str) {
    let object = AccessTarget::Resource {
        group: "",
        resource: "pods",
        subresource: "",
        namespace,
        name: "web",
    };
    let reason = match rbac.authorize(user, &Attributes::new("get", object)).wait() {
        Decision::Allowed(reason) => format!("yes, {reason}"),
        Decision::Denied(reason) | Decision::NoOpinion(reason) => reason.to_string(),
    };
    assert_eq!(reason, expected);
}

#[test]
fn a_binding_grants_its_role_in_its_namespace() {
    let objects = [
        role("a", "reader", &read_pods()),
        binding("a", "readers", "Role/reader", &user("alice")),
    ];
    let alice = User::new("alice", &[]);
    let yes = r#"yes, RBAC: allowed by RoleBinding "readers/a" of Role "reader" to User "alice""#;
    check(&objects, &alice, "a", yes);
    check(&objects, &alice, "b", "");
    check(&objects, &alice, "", "");
    check(&objects, &User::new("bob", &[]), "a", "");
}

#[test]
fn a_cluster_binding_grants_everywhere() {
    let objects = [
        role("", "reader", &read_pods()),
        binding(
            "",
            "readers",
            "ClusterRole/reader",
            &json!([{"kind": "Group", "name": "devs"}]),
        ),
    ];
    let yes = r#"yes, RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to Group "devs""#;
    for namespace in ["a", "b", ""] {
        check(&objects, &User::new("alice", &["devs"]), namespace, yes);
    }
    check(&objects, &User::new("devs", &["ops"]), "a", "");
}

#[test]
fn a_cluster_role_bound_in_a_namespace_holds_only_there() {
    let objects = [
        role("", "reader", &read_pods()),
        binding("a", "readers", "ClusterRole/reader", &user("alice")),
    ];
    let yes = r#"yes, RBAC: allowed by RoleBinding "readers/a" of ClusterRole "reader" to User "alice""#;
    check(&objects, &User::new("alice", &[]), "a", yes);
    check(&objects, &User::new("alice", &[]), "b", "");
}

/// A service account cannot read what is in another namespace.
#[test]
fn a_service_account_is_bound_by_namespace_and_name() {
    let accounts = json!([{"kind": "ServiceAccount", "name": "web"}, {"kind": "ServiceAccount", "name": "db", "namespace": "b"}]);
    let objects = [
        role("a", "reader", &read_pods()),
        binding("a", "readers", "Role/reader", &accounts),
    ];
    let of = |name: &str| User::new(name, &[]);
    let yes = r#"yes, RBAC: allowed by RoleBinding "readers/a" of Role "reader" to ServiceAccount "web/a""#;
    check(&objects, &of("system:serviceaccount:a:web"), "a", yes);
    check(&objects, &of("system:serviceaccount:b:web"), "a", "");
    let yes = r#"yes, RBAC: allowed by RoleBinding "readers/a" of Role "reader" to ServiceAccount "db/b""#;
    check(&objects, &of("system:serviceaccount:b:db"), "a", yes);
    check(&objects, &of("system:serviceaccount:b:db"), "b", "");
}

#[test]
fn of_several_subjects_the_first_is_named() {
    let subjects = json!([{"kind": "Group", "name": "devs"}, {"kind": "User", "name": "alice"}]);
    let objects = [
        role("", "reader", &read_pods()),
        binding("", "readers", "ClusterRole/reader", &subjects),
    ];
    let yes = r#"yes, RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to Group "devs""#;
    check(&objects, &User::new("alice", &["devs"]), "a", yes);
    let rbac = Rbac::new(TestCaches::with(&objects));
    let rules = rbac.rules_of(&User::new("alice", &["devs"]), "a").rules;
    assert_eq!(rules.len(), 1, "one binding counts once");
}

#[test]
fn a_binding_to_a_missing_role_is_reported() {
    let objects = [binding("", "readers", "ClusterRole/gone", &user("alice"))];
    let reason = r#"RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found"#;
    check(&objects, &User::new("alice", &[]), "a", reason);
}

#[test]
fn changes_apply_from_the_next_check_on() {
    let caches = TestCaches::with(&[
        role("a", "reader", &json!([])),
        binding("a", "readers", "Role/reader", &user("alice")),
    ]);
    let rbac = Rbac::new(caches.clone());
    let alice = User::new("alice", &[]);
    let yes = r#"yes, RBAC: allowed by RoleBinding "readers/a" of Role "reader" to User "alice""#;
    check_live(&rbac, &alice, "a", "");
    caches.put(&role("a", "reader", &read_pods()));
    check_live(&rbac, &alice, "a", yes);
    caches.put(&binding("a", "readers", "Role/reader", &user("bob")));
    check_live(&rbac, &alice, "a", "");
    caches.put(&binding("a", "readers", "Role/reader", &user("alice")));
    check_live(&rbac, &alice, "a", yes);
    caches.remove(&role("a", "reader", &json!([])));
    check_live(
        &rbac,
        &alice,
        "a",
        r#"RBAC: role.rbac.authorization.k8s.io "reader" not found"#,
    );
    caches.remove(&binding("a", "readers", "Role/reader", &user("alice")));
    check_live(&rbac, &alice, "a", "");
}

/// A write of a role or a binding, or a deletion of one, by small numbers.
fn step(caches: &TestCaches, (kind, name, namespace, content, delete): (u8, u8, u8, u8, bool)) {
    let (name, namespace) = (format!("x{name}"), ["", "a", "b"][usize::from(namespace)]);
    let who = ["alice", "bob"][usize::from(content % 2)];
    let subjects = json!([{"kind": if content > 1 { "Group" } else { "User" }, "name": who}]);
    let target = format!(
        "{}/x{content}",
        if kind == 1 || namespace.is_empty() {
            "ClusterRole"
        } else {
            "Role"
        }
    );
    let object = match kind {
        0 => role(
            namespace,
            &name,
            &if content == 0 { json!([]) } else { read_pods() },
        ),
        _ => binding(namespace, &name, &target, &subjects),
    };
    match (delete, caches.contains(&object)) {
        (true, true) => caches.remove(&object),
        (true, false) => {}
        (false, _) => caches.put(&object),
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(48))]

    /// Applying the changes has the same result as compiling everything again.
    #[test]
    fn incremental_grants_equal_compiled_grants(
        steps in proptest::collection::vec((0u8..3, 0u8..4, 0u8..3, 0u8..4, proptest::bool::ANY), 1..40)
    ) {
        let caches = TestCaches::with(&[]);
        let followed = Rbac::new(caches.clone());
        for one in steps {
            step(&caches, one);
            let recompiled = Rbac::new(caches.clone());
            for namespace in ["", "a", "b"] {
                for user in [User::new("alice", &["bob"]), User::new("bob", &[]), User::new("x", &["alice", "bob"])] {
                    let (own, other) = (followed.rules_of(&user, namespace), recompiled.rules_of(&user, namespace));
                    proptest::prop_assert_eq!((own.rules, own.problems), (other.rules, other.problems));
                }
            }
        }
    }
}
