//! The objects every cluster has, against the recorded ones; and what becomes of them at a later start.

use std::path::PathBuf;

use super::*;

fn all() -> Vec<Tree> {
    objects(&Kinds::builtin())
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

/// The recorded objects are compared where they are; descriptions are our own.
#[test]
#[allow(clippy::print_stderr, reason = "a test says what it skips")]
fn every_cluster_has_what_kubernetes_makes() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/ref/bootstrap-objects.json");
    let Ok(text) = std::fs::read(&file) else {
        eprintln!("skipped: no recordings at {}", file.display());
        return;
    };
    let recorded = setpoint_codec::json::parse(&text).unwrap();
    let own = all();
    let served: Vec<&str> = own
        .iter()
        .filter(|tree| tree.str_at(&["kind"]) == Some("APIService"))
        .map(meta::name)
        .collect();
    for wanted in recorded.items("objects") {
        let (kind, name) = (wanted.str_at(&["kind"]).unwrap(), meta::name(wanted));
        if kind == "APIService" && !served.contains(&name) {
            continue;
        }
        let namespace = meta::str(wanted, "namespace");
        let found = own.iter().find(|tree| {
            tree.str_at(&["kind"]) == Some(kind)
                && meta::name(tree) == name
                && meta::str(tree, "namespace") == namespace
        });
        let mut found = found.unwrap_or_else(|| panic!("no {kind} {name}")).clone();
        let mut wanted = wanted.clone();
        found.take(&["description"]);
        wanted.take(&["status"]);
        assert!(
            found.means_same(&wanted),
            "{kind} {name}: {found:?}\nnot {wanted:?}"
        );
    }
}

#[test]
fn a_role_gets_back_the_rules_it_lost() {
    let wanted = find("ClusterRole", "system:basic-user");
    let mut existing = wanted.clone();
    existing.take(&["rules"]);
    let back = reconcile::reconciled(&existing, &wanted).unwrap();
    assert_eq!(back.get("rules"), wanted.get("rules"));
    assert_eq!(reconcile::reconciled(&wanted, &wanted), None);
}

#[test]
fn a_wider_rule_is_left_as_it_is() {
    let wanted = find("ClusterRole", "system:basic-user");
    let wide = find("ClusterRole", "cluster-admin");
    let mut existing = wanted.clone();
    existing.set(&["rules"], wide.get("rules").unwrap().clone());
    assert_eq!(reconcile::reconciled(&existing, &wanted), None);
}

#[test]
fn who_says_so_keeps_a_role_as_it_is() {
    let wanted = find("ClusterRole", "system:basic-user");
    let mut existing = wanted.clone();
    existing.take(&["rules"]);
    let annotation = "rbac.authorization.kubernetes.io/autoupdate";
    existing.set(&["metadata", "annotations", annotation], "false");
    assert_eq!(reconcile::reconciled(&existing, &wanted), None);
}

#[test]
fn a_flow_schema_is_put_back() {
    let wanted = find("FlowSchema", "catch-all");
    let mut existing = wanted.clone();
    existing.set(&["spec", "matchingPrecedence"], 5);
    let back = reconcile::reconciled(&existing, &wanted).unwrap();
    assert!(back.means_same(&wanted));
}

#[track_caller]
fn check_range(text: &str, expected: Option<(u128, &str)>) {
    let range: Result<IpRange, _> = text.parse();
    let found = range
        .ok()
        .map(|range| (range.len(), range.nth(1).unwrap().to_string()));
    let expected = expected.map(|(len, first)| (len, first.to_owned()));
    assert_eq!(found, expected, "{text}");
}

#[test]
fn ranges_are_aligned() {
    check_range("10.96.0.0/12", Some((1 << 20, "10.96.0.1")));
    check_range("fd00::/112", Some((1 << 16, "fd00::1")));
    check_range("10.96.0.1/12", None);
    check_range("10.96.0.0/33", None);
    check_range("10.96.0.0", None);
}
