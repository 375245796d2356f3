//! Requests by users with few rights, as impersonated by the endpoint's user: what is allowed, what is forbidden, and in
//! which words. Bodies are mutated, too, since the order of authorization and validation shows.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

use super::{body, case};
use crate::corpus::Entry;
use crate::corpus::steps::{self, APPLY, JSON, MERGE, get, post, send};
use crate::transcript::{Case, Step};

/// A user: name and groups.
const USERS: &[(&str, &[&str])] = &[
    ("stranger", &[]),
    ("stranger", &["system:unauthenticated"]),
    ("reader", &["system:authenticated"]),
    ("editor", &["system:authenticated"]),
    ("grantor", &["system:authenticated"]),
    (
        "system:node:mutation-node",
        &["system:nodes", "system:authenticated"],
    ),
    ("system:node:", &["system:nodes", "system:authenticated"]),
    ("system:anonymous", &["system:unauthenticated"]),
    (
        "system:serviceaccount:NS:default",
        &[
            "system:serviceaccounts",
            "system:serviceaccounts:NS",
            "system:authenticated",
        ],
    ),
    ("bücher", &["system:authenticated"]),
];

const PATHS: &[&str] = &[
    "/",
    "/apis/apps",
    "/apis/apps/v1",
    "/apis/odd/v1",
    "/api/v1",
    "/healthz",
    "/livez",
    "/readyz/ping",
    "/metrics",
    "/logs/",
    "/debug/pprof/",
    "/odd",
    "/apis/apps/v1/odd",
];

/// A request by a random user.
pub(super) fn request(entry: &Entry, namespace: &str, id: &str, rng: &mut StdRng) -> Case {
    let step = match rng.random_range(0..100) {
        0..55 => resource_step(entry, id, rng),
        55..65 => get(PATHS.choose(rng).copied().unwrap_or_default()),
        65..80 => review(namespace, rng),
        _ => grant(namespace, id, rng),
    };
    let mut case = case(
        "access",
        &entry.id,
        id,
        vec![by_random_user(step, namespace, rng)],
    );
    case.setup = rights(namespace);
    case
}

/// A request for a resource: an object that does not exist, or the setup's ConfigMap.
fn resource_step(entry: &Entry, id: &str, rng: &mut StdRng) -> Step {
    let name = match rng.random_bool(0.3) {
        true => "mine".to_owned(),
        false => format!("absent-{id}"),
    };
    let object = format!("{}/{name}", entry.at);
    let mutated = body::mutated(&entry.object, rng);
    match rng.random_range(0..12) {
        0 => get(&object),
        1 => Step {
            status_only: true,
            ..get(&entry.at)
        },
        2 => post(&format!("{}?dryRun=All", entry.at), &mutated),
        3 => send("PUT", &format!("{object}?dryRun=All"), JSON, mutated.to_string()),
        4 => send(
            "PATCH",
            &format!("{object}?dryRun=All"),
            MERGE,
            "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}",
        ),
        5 => send(
            "PATCH",
            &format!("{object}?dryRun=All&fieldManager=m"),
            APPLY,
            mutated.to_string(),
        ),
        6 => send("DELETE", &format!("{object}?dryRun=All"), JSON, ""),
        7 => send(
            "DELETE",
            &format!("{}?dryRun=All&fieldSelector=metadata.name%3Dx", entry.at),
            JSON,
            "",
        ),
        8 => get(&format!("{object}/status")),
        9 => send(
            "PATCH",
            &format!("{object}/status?dryRun=All"),
            MERGE,
            "{\"status\":{}}",
        ),
        10 => get(&format!("{}?watch=true&resourceVersion=x", entry.at)),
        _ => get(&format!("{}?fieldSelector=metadata.name%3D{name}", entry.at)),
    }
}

/// A review of the user's own rights, or of another's.
fn review(namespace: &str, rng: &mut StdRng) -> Step {
    let attributes = json!({"namespace": namespace, "verb": "get", "resource": "configmaps", "name": "mine"});
    let (kind, spec) = match rng.random_range(0..5) {
        0 => (
            "selfsubjectaccessreviews",
            json!({"resourceAttributes": attributes}),
        ),
        1 => (
            "selfsubjectaccessreviews",
            json!({"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}),
        ),
        2 => ("selfsubjectrulesreviews", json!({"namespace": namespace})),
        3 => (
            "subjectaccessreviews",
            json!({"user": "reader", "resourceAttributes": attributes}),
        ),
        _ => (
            "localsubjectaccessreviews",
            json!({"user": "reader", "resourceAttributes": attributes}),
        ),
    };
    let names = [
        ("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        ("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
        ("subjectaccessreviews", "SubjectAccessReview"),
        ("localsubjectaccessreviews", "LocalSubjectAccessReview"),
    ];
    let name = names
        .iter()
        .find(|(resource, _)| *resource == kind)
        .map(|(_, name)| *name);
    let object = json!({"apiVersion": "authorization.k8s.io/v1", "kind": name, "spec": spec});
    let base = "/apis/authorization.k8s.io/v1";
    let path = match kind {
        "localsubjectaccessreviews" => format!("{base}/namespaces/{namespace}/{kind}"),
        _ => format!("{base}/{kind}"),
    };
    let object = match rng.random_bool(0.5) {
        true => body::mutated(&object, rng),
        false => object,
    };
    post(&path, &object)
}

/// A write of a role, a binding, a token or a certificate request, by which a user could get more rights.
fn grant(namespace: &str, id: &str, rng: &mut StdRng) -> Step {
    let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
    let role = |rule: Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": format!("r{id}")}, "rules": [rule]})
    };
    let binding = |kind: &str, name: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": format!("b{id}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "stranger"}]})
    };
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a"]}});
    let rule = [
        json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}),
        json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}),
        json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["update"], "resourceNames": ["mine", "other"]}),
        json!({"apiGroups": ["apps"], "resources": ["deployments/scale", "deployments"], "verbs": ["patch", "create"]}),
    ];
    let (path, object) = match rng.random_range(0..5) {
        0 | 1 => (
            format!("{rbac}/roles"),
            role(rule.choose(rng).cloned().unwrap_or_default()),
        ),
        2 => (format!("{rbac}/rolebindings"), binding("Role", "reader")),
        3 => (format!("{rbac}/rolebindings"), binding("ClusterRole", "admin")),
        _ => (
            format!("/api/v1/namespaces/{namespace}/serviceaccounts/default/token"),
            token,
        ),
    };
    let object = match rng.random_bool(0.4) {
        true => body::mutated(&object, rng),
        false => object,
    };
    post(&format!("{path}?dryRun=All"), &object)
}

fn by_random_user(mut step: Step, namespace: &str, rng: &mut StdRng) -> Step {
    let (name, groups) = USERS.choose(rng).copied().unwrap_or(("stranger", &[]));
    step.headers.insert(
        "Impersonate-User".to_owned(),
        json!(name.replace("NS", namespace)),
    );
    // A step has one header of each name; the other groups are implied by the user's name.
    if let Some(group) = groups.choose(rng) {
        step.headers.insert(
            "Impersonate-Group".to_owned(),
            json!(group.replace("NS", namespace)),
        );
    }
    step
}

/// The roles of the users.
fn rights(namespace: &str) -> Vec<Step> {
    let at = format!("/api/v1/namespaces/{namespace}/configmaps");
    let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
    let mut steps = steps::namespace(&at);
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {"a": "b"}});
    steps.push(post(&at, &map));
    let rules = [
        (
            "reader",
            json!([{"apiGroups": ["", "apps"], "resources": ["configmaps", "pods", "deployments"],
            "verbs": ["get", "list", "watch"]}]),
        ),
        (
            "editor",
            json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"],
                "verbs": ["get", "update", "patch", "delete"]},
            {"apiGroups": ["apps"], "resources": ["deployments", "deployments/status"], "verbs": ["update", "patch"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["update", "patch"]}]),
        ),
        (
            "grantor",
            json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"],
                "verbs": ["create", "update", "patch", "get"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]),
        ),
    ];
    for (user, rules) in rules {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": user}, "rules": rules});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]});
        steps.push(post(&format!("{rbac}/roles"), &role));
        // The authorizer of Kubernetes reads from informers: the rights are there a moment later.
        let mut bound = post(&format!("{rbac}/rolebindings"), &binding);
        bound.wait_ms = 500;
        steps.push(bound);
    }
    steps
        .into_iter()
        .map(|step| Step { once: true, ..step })
        .collect()
}
