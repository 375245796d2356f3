//! Validation of service updates, and the fields that a change of type drops.

use std::collections::BTreeSet;

use setpoint_schema::{Tree, fields};
use setpoint_strategy::FieldRef;

use super::{check_class, is_headless, is_reachable};

const FIXED: &str = "may not change once set";

/// Validates an update.
pub(super) fn validate(spec: &FieldRef<'_>, old: &FieldRef<'_>) {
    validate_addresses(spec, old);
    validate_families(spec, old);
    validate_class(spec, old);
    let health = spec.at(fields::HEALTH_CHECK_NODE_PORT);
    if needs_health_check_port(spec)
        && needs_health_check_port(old)
        && health.int() != old.at(fields::HEALTH_CHECK_NODE_PORT).int()
    {
        health.forbidden("field is immutable");
    }
}

fn is_external(spec: &FieldRef<'_>) -> bool {
    spec.at(fields::TYPE).str() == "ExternalName"
}

/// Whether the service has a health check node port.
fn needs_health_check_port(spec: &FieldRef<'_>) -> bool {
    spec.at(fields::TYPE).str() == "LoadBalancer" && spec.at(fields::EXTERNAL_TRAFFIC_POLICY).str() == "Local"
}

/// The primary cluster IP is immutable; a secondary one may be added, and removed as the policy allows.
fn validate_addresses(spec: &FieldRef<'_>, old: &FieldRef<'_>) {
    if is_external(spec) || is_external(old) || (is_headless(spec) && is_headless(old)) {
        return;
    }
    let (new, before) = (spec.at(fields::CLUSTER_IPS), old.at(fields::CLUSTER_IPS));
    let report = |at: usize, detail: &str| new.with_errors(new.errors().index(at)).invalid(detail);
    let changed = |at: usize| new.strs().nth(at) != before.strs().nth(at);
    match (before.len(), new.len()) {
        (was, is) if was == is => (0..is).filter(|at| changed(*at)).for_each(|at| report(at, FIXED)),
        (was, is) if was > is => {
            if is == 0 {
                report(0, "primary clusterIP can not be unset");
            } else if changed(0) {
                report(0, FIXED);
            }
            if is == 1 {
                require_single(
                    spec,
                    "must be set to 'SingleStack' when releasing the secondary clusterIP",
                );
            }
        }
        (1.., _) if changed(0) => report(0, FIXED),
        _ => {}
    }
}

fn validate_families(spec: &FieldRef<'_>, old: &FieldRef<'_>) {
    if is_external(spec) || is_external(old) || is_headless(spec) || is_headless(old) {
        return;
    }
    let (new, before) = (spec.at(fields::IP_FAMILIES), old.at(fields::IP_FAMILIES));
    let first = new.errors().index(0);
    let changed = |at: usize| new.strs().nth(at) != before.strs().nth(at);
    let addresses = spec.at(fields::CLUSTER_IPS);
    match (before.len(), new.len()) {
        (was, is) if was == is => {
            for _ in (0..is).filter(|at| changed(*at)) {
                new.with_errors(first.clone()).invalid(FIXED);
            }
        }
        (was, is) if was > is => {
            if addresses.is_empty() {
                new.with_errors(first.clone())
                    .invalid("primary ipFamily can not be unset");
            }
            if is > 0 && changed(0) {
                addresses.with_errors(first.clone()).invalid(FIXED);
            }
            if is == 1 {
                require_single(
                    spec,
                    "must be set to 'SingleStack' when releasing the secondary ipFamily",
                );
            }
        }
        (1.., 1..) if changed(0) => addresses.with_errors(first.clone()).invalid(FIXED),
        _ => {}
    }
}

fn require_single(spec: &FieldRef<'_>, detail: &str) {
    let policy = spec.at(fields::IP_FAMILY_POLICY);
    if policy.str() != "SingleStack" {
        policy.invalid(detail);
    }
}

fn validate_class(spec: &FieldRef<'_>, old: &FieldRef<'_>) {
    let balanced = |spec: &FieldRef<'_>| spec.at(fields::TYPE).str() == "LoadBalancer";
    let class = spec.at(fields::LOAD_BALANCER_CLASS);
    if balanced(spec) && balanced(old) && !class.is_same(&old.at(fields::LOAD_BALANCER_CLASS)) {
        class.invalid(FIXED);
    }
    if class.is_set() {
        check_class(&class, balanced(spec));
    }
}

/// Drops fields that no longer apply after a change of type, unless the same update changes them.
pub(super) fn drop_what_no_longer_applies(service: &mut Tree, old: &Tree) {
    let null = Tree::Null;
    let (new_type, old_type) = (kind(service), kind(old));
    let old_spec = old.get(fields::SPEC).unwrap_or(&null);
    let spec = service.child(fields::SPEC);
    if old_type != "ExternalName" && new_type == "ExternalName" {
        if is_unchanged(spec, old_spec, fields::CLUSTER_IP)
            && is_unchanged(spec, old_spec, fields::CLUSTER_IPS)
        {
            spec.take(&[fields::CLUSTER_IP]);
            spec.take(&[fields::CLUSTER_IPS]);
        }
        drop_same(spec, old_spec, fields::IP_FAMILIES);
        drop_same(spec, old_spec, fields::IP_FAMILY_POLICY);
    }
    if has_node_ports(&old_type) && !has_node_ports(&new_type) && old_node_ports(spec, old_spec) {
        for port in spec.items_mut(fields::PORTS) {
            port.take(&[fields::NODE_PORT]);
        }
    }
    if has_health_check_port(old_spec) && !has_health_check_port(spec) {
        drop_same(spec, old_spec, fields::HEALTH_CHECK_NODE_PORT);
    }
    if old_type == "LoadBalancer" && new_type != "LoadBalancer" {
        drop_same(spec, old_spec, fields::ALLOCATE_LOAD_BALANCER_NODE_PORTS);
        drop_same(spec, old_spec, fields::LOAD_BALANCER_CLASS);
    }
    if reachable(old_spec) && !reachable(spec) {
        drop_same(spec, old_spec, fields::EXTERNAL_TRAFFIC_POLICY);
    }
    if new_type != "LoadBalancer" {
        service.take(&[fields::STATUS, fields::LOAD_BALANCER]);
    }
}

fn kind(service: &Tree) -> String {
    let kind = service.str_at(&[fields::SPEC, fields::TYPE]);
    kind.unwrap_or_default().to_owned()
}

fn is_unchanged(spec: &Tree, old: &Tree, field: &str) -> bool {
    spec.get(field) == old.get(field)
}

fn drop_same(spec: &mut Tree, old: &Tree, field: &str) {
    if is_unchanged(spec, old, field) {
        spec.take(&[field]);
    }
}

pub(super) fn has_node_ports(kind: &str) -> bool {
    matches!(kind, "NodePort" | "LoadBalancer")
}

pub(super) fn has_health_check_port(spec: &Tree) -> bool {
    spec.str_at(&[fields::TYPE]) == Some("LoadBalancer")
        && spec.str_at(&[fields::EXTERNAL_TRAFFIC_POLICY]) == Some("Local")
}

fn reachable(spec: &Tree) -> bool {
    let kind = spec.str_at(&[fields::TYPE]).unwrap_or_default();
    is_reachable(kind, !spec.items(fields::EXTERNAL_IPS).is_empty())
}

/// Whether the update adds no node port.
fn old_node_ports(spec: &Tree, old: &Tree) -> bool {
    node_ports(spec).is_subset(&node_ports(old))
}

/// The node ports that are set.
pub(super) fn node_ports(spec: &Tree) -> BTreeSet<i64> {
    let ports = spec.items(fields::PORTS).iter();
    ports
        .filter_map(|port| port.get(fields::NODE_PORT).and_then(Tree::as_i64))
        .filter(|port| *port != 0)
        .collect()
}
