//! The rules that apply to all nodes alike.

use std::sync::LazyLock;

use super::super::{Attributes, PolicyRule};
use super::{NO_OPINION, NodeDecision};

const READ: [&str; 3] = ["get", "list", "watch"];

/// Rules for resources that are not related to single nodes.
static RULES: LazyLock<Vec<PolicyRule>> = LazyLock::new(|| {
    vec![
        PolicyRule::for_resources(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
        PolicyRule::for_resources(
            &["create"],
            &["authorization.k8s.io"],
            &["subjectaccessreviews", "localsubjectaccessreviews"],
        ),
        PolicyRule::for_resources(&READ, &[""], &["services"]),
        PolicyRule::for_resources(
            &["create", "update", "patch"],
            &["", "events.k8s.io"],
            &["events"],
        ),
        PolicyRule::for_resources(&["get"], &[""], &["endpoints"]),
        PolicyRule::for_resources(
            &["create", "get", "list", "watch"],
            &["certificates.k8s.io"],
            &["certificatesigningrequests"],
        ),
        PolicyRule::for_resources(&READ, &["certificates.k8s.io"], &["clustertrustbundles"]),
        PolicyRule::for_resources(&READ, &["storage.k8s.io"], &["csidrivers"]),
        PolicyRule::for_resources(&READ, &["node.k8s.io"], &["runtimeclasses"]),
    ]
});

pub(super) fn decide(attributes: &Attributes<'_>) -> NodeDecision {
    match RULES.iter().any(|rule| rule.allows(attributes)) {
        true => Ok(()),
        false => NO_OPINION,
    }
}
