//! The bootstrap objects against those recorded from Kubernetes, and how they are reconciled.

use super::*;

fn all() -> Vec<Tree> {
    objects(&crate::builtin(), None)
        .into_iter()
        .map(|bootstrap| bootstrap.object)
        .collect()
}

#[track_caller]
fn find(kind: &str, name: &str) -> Tree {
    let found = all()
        .into_iter()
        .find(|tree| tree.str_at(&["kind"]) == Some(kind) && meta::name(tree) == name);
    found.unwrap()
}

/// The descriptions of priority classes are our own texts and not compared.
#[test]
fn bootstrap_objects_equal_those_of_kubernetes() {
    let recorded = setpoint_codec::json::parse(setpoint_reference::bootstrap_objects().as_bytes()).unwrap();
    let objects = all();
    let served: Vec<&str> = objects
        .iter()
        .filter(|tree| tree.str_at(&["kind"]) == Some("APIService"))
        .map(meta::name)
        .collect();
    for expected in recorded.items("objects") {
        let (kind, name) = (expected.str_at(&["kind"]).unwrap(), meta::name(expected));
        if kind == "APIService" && !served.contains(&name) {
            continue;
        }
        let namespace = meta::str(expected, "namespace");
        let found = objects.iter().find(|tree| {
            tree.str_at(&["kind"]) == Some(kind)
                && meta::name(tree) == name
                && meta::str(tree, "namespace") == namespace
        });
        let mut found = found.unwrap_or_else(|| panic!("no {kind} {name}")).clone();
        let mut expected = expected.clone();
        found.take(&["description"]);
        expected.take(&["status"]);
        assert!(
            found.semantic_eq(&expected),
            "{kind} {name}: {found:?}\nnot {expected:?}"
        );
    }
}

#[test]
fn a_role_gets_its_missing_rules_back() {
    let expected = find("ClusterRole", "system:basic-user");
    let mut existing = expected.clone();
    existing.take(&["rules"]);
    let back = reconcile::reconcile(&existing, &expected).unwrap();
    assert_eq!(back.get("rules"), expected.get("rules"));
    assert_eq!(reconcile::reconcile(&expected, &expected), None);
}

#[test]
fn a_wider_rule_is_left_as_it_is() {
    let expected = find("ClusterRole", "system:basic-user");
    let wide = find("ClusterRole", "cluster-admin");
    let mut existing = expected.clone();
    existing.set(&["rules"], wide.get("rules").unwrap().clone());
    assert_eq!(reconcile::reconcile(&existing, &expected), None);
}

#[test]
fn a_role_without_autoupdate_is_left_as_it_is() {
    let expected = find("ClusterRole", "system:basic-user");
    let mut existing = expected.clone();
    existing.take(&["rules"]);
    let annotation = "rbac.authorization.kubernetes.io/autoupdate";
    existing.set(&["metadata", "annotations", annotation], "false");
    assert_eq!(reconcile::reconcile(&existing, &expected), None);
}

#[test]
fn a_changed_flow_schema_is_reset() {
    let expected = find("FlowSchema", "catch-all");
    let mut existing = expected.clone();
    existing.set(&["spec", "matchingPrecedence"], 5);
    let back = reconcile::reconcile(&existing, &expected).unwrap();
    assert!(back.semantic_eq(&expected));
}

/// Checks what a changed FlowSchema becomes: its annotation, and whether its spec is reset.
#[track_caller]
fn check_flow(name: &str, annotation: Option<&str>, generation: i64, expected: (Option<&str>, bool)) {
    let desired = find("FlowSchema", name);
    let mut existing = desired.clone();
    existing.set(&["spec", "matchingPrecedence"], 5);
    existing.set(&["metadata", "generation"], generation);
    existing.take(&["metadata", "annotations"]);
    if let Some(value) = annotation {
        existing.set(
            &["metadata", "annotations", "apf.kubernetes.io/autoupdate-spec"],
            value,
        );
    }
    let revised = reconcile::reconcile(&existing, &desired).unwrap_or(existing);
    let annotation = meta::entry(&revised, "annotations", "apf.kubernetes.io/autoupdate-spec");
    let is_reset = revised
        .get("spec")
        .unwrap()
        .semantic_eq(desired.get("spec").unwrap());
    assert_eq!((annotation, is_reset), expected);
}

#[test]
fn a_suggested_flow_schema_is_reset_unless_its_annotation_forbids_it() {
    check_flow("probes", Some("true"), 3, (Some("true"), true));
    check_flow("probes", Some("T"), 3, (Some("T"), true));
    check_flow("probes", Some("false"), 3, (Some("false"), false));
    check_flow("probes", None, 1, (Some("true"), true));
    check_flow("probes", None, 2, (Some("false"), false));
    check_flow("probes", Some("perhaps"), 2, (Some("false"), false));
}

#[test]
fn a_mandatory_flow_schema_is_always_reset() {
    check_flow("exempt", Some("false"), 3, (Some("true"), true));
    check_flow("catch-all", None, 2, (Some("true"), true));
}
