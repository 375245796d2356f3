//! A node writes its own Node: not its taints and owners, nor labels that attract pods.

use std::collections::BTreeSet;

use setpoint_registry_api::{Operation, Review};
use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::meta;

use super::{Outcome, forbid, same};
use crate::review::has;

const RESTRICTED_DOMAIN: &str = "node-restriction.kubernetes.io";
const KUBERNETES_DOMAINS: [&str; 2] = ["kubernetes.io", "k8s.io"];
/// The labels of Kubernetes' own domains that a kubelet sets.
const KUBELET_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
const KUBELET_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

pub(super) fn check(review: &Review<'_>, node: &str) -> Outcome {
    if review.name != node {
        return forbid(format!(
            "node {node:?} is not allowed to modify node {:?}",
            review.name
        ));
    }
    match (review.operation, review.object.as_deref()) {
        (Operation::Create, Some(new)) => check_create(node, new),
        (Operation::Update, Some(new)) => match review.decode_old() {
            Some(old) => check_update(node, &old, new),
            None => forbid("unexpected type <nil>"),
        },
        _ => Ok(()),
    }
}

fn check_create(node: &str, new: &Tree) -> Outcome {
    if has(new, &[fields::SPEC, fields::CONFIG_SOURCE]) {
        return forbid(format!(
            "node {node:?} is not allowed to create pods with a non-nil configSource"
        ));
    }
    let labels = forbidden_labels(&Tree::Null, new);
    match labels.is_empty() {
        true => Ok(()),
        false => forbid(format!(
            "node {node:?} is not allowed to set the following labels: {}",
            join(&labels)
        )),
    }
}

fn check_update(node: &str, old: &Tree, new: &Tree) -> Outcome {
    let source = [fields::SPEC, fields::CONFIG_SOURCE];
    if has(new, &source) && !same(old, new, &source) {
        return forbid(format!(
            "node {node:?} is not allowed to update configSource to a new non-nil configSource"
        ));
    }
    if !same(old, new, &[fields::SPEC, fields::TAINTS]) {
        return forbid(format!("node {node:?} is not allowed to modify taints"));
    }
    if !same(old, new, &[fields::METADATA, fields::OWNER_REFERENCES]) {
        return forbid(format!("node {node:?} is not allowed to modify ownerReferences"));
    }
    let labels = forbidden_labels(old, new);
    match labels.is_empty() {
        true => Ok(()),
        false => forbid(format!("is not allowed to modify labels: {}", join(&labels))),
    }
}

fn join(labels: &BTreeSet<&str>) -> String {
    labels.iter().copied().collect::<Vec<_>>().join(", ")
}

/// The labels that differ and that a node may not set, change or remove.
fn forbidden_labels<'a>(old: &'a Tree, new: &'a Tree) -> BTreeSet<&'a str> {
    let keys = |object: &'a Tree| {
        let labels = meta::find(object, fields::LABELS).and_then(Tree::as_map);
        labels.into_iter().flat_map(Map::keys)
    };
    let value = |object: &'a Tree, key: &str| meta::entry(object, fields::LABELS, key);
    keys(old)
        .chain(keys(new))
        .filter(|key| value(old, key) != value(new, key) && is_forbidden(key))
        .collect()
}

fn is_forbidden(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let is_in = |parent: &&str| {
        let rest = domain.strip_suffix(*parent);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_kubelets = KUBELET_LABELS.contains(&label) || KUBELET_DOMAINS.iter().any(is_in);
    is_in(&RESTRICTED_DOMAIN) || (KUBERNETES_DOMAINS.iter().any(is_in) && !is_kubelets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(label: &str, expected: bool) {
        assert_eq!(is_forbidden(label), expected, "{label}");
    }

    #[test]
    fn labels_of_kubernetes_are_forbidden_unless_kubelets_set_them() {
        for label in [
            "node-restriction.kubernetes.io/x",
            "a.node-restriction.kubernetes.io/x",
            "node-role.kubernetes.io/master",
            "kubernetes.io/x",
            "k8s.io/x",
            "a.k8s.io/x",
        ] {
            check(label, true);
        }
        for label in [
            "kubernetes.io/hostname",
            "beta.kubernetes.io/os",
            "kubelet.kubernetes.io/x",
            "a.node.kubernetes.io/x",
            "example.com/x",
            "notkubernetes.io/x",
            "x",
        ] {
            check(label, false);
        }
    }
}
