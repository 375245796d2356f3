//! The rules that apply to all nodes alike.

use std::sync::LazyLock;

use setpoint_api::ApiVerb;

use super::super::{Attributes, PolicyRule};
use super::{NO_OPINION, NodeDecision};

const READ: [ApiVerb; 3] = [ApiVerb::Get, ApiVerb::List, ApiVerb::Watch];

/// Rules for resources that are not related to single nodes.
static RULES: LazyLock<Vec<PolicyRule>> = LazyLock::new(|| {
    vec![
        PolicyRule::for_resources(&[ApiVerb::Create], &["authentication.k8s.io"], &["tokenreviews"]),
        PolicyRule::for_resources(
            &[ApiVerb::Create],
            &["authorization.k8s.io"],
            &["subjectaccessreviews", "localsubjectaccessreviews"],
        ),
        PolicyRule::for_resources(&READ, &[""], &["services"]),
        PolicyRule::for_resources(
            &[ApiVerb::Create, ApiVerb::Update, ApiVerb::Patch],
            &["", "events.k8s.io"],
            &["events"],
        ),
        PolicyRule::for_resources(&[ApiVerb::Get], &[""], &["endpoints"]),
        PolicyRule::for_resources(
            &[ApiVerb::Create, ApiVerb::Get, ApiVerb::List, ApiVerb::Watch],
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
