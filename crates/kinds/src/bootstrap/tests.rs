//! The bootstrap objects against those recorded from Kubernetes, and how they are reconciled.

use super::*;

fn all() -> Vec<Tree> {
    cluster_objects(&crate::builtin())
        .into_iter()
        .map(|(_, tree)| tree)
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
