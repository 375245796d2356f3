//! The rules of a role that is made of others: pure.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use setpoint_api::selector::LabelSelector;

/// The rules of all roles that the role picks, by their names, each rule once.
pub(crate) fn rules(role: &ClusterRole, others: &[Arc<ClusterRole>]) -> Vec<PolicyRule> {
    let mut rules: Vec<PolicyRule> = Vec::new();
    let selectors = role
        .aggregation_rule
        .iter()
        .flat_map(|rule| rule.cluster_role_selectors.iter().flatten());
    for selector in selectors {
        let Ok(selector) = LabelSelector::try_from(selector) else {
            continue;
        };
        let mut picked: Vec<&Arc<ClusterRole>> =
            others.iter().filter(|other| picks(&selector, other)).collect();
        picked.sort_by_key(|other| other.metadata.name.clone());
        for other in picked
            .into_iter()
            .filter(|other| other.metadata.name != role.metadata.name)
        {
            for rule in other.rules.iter().flatten() {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    rules
}

fn picks(selector: &LabelSelector, role: &ClusterRole) -> bool {
    let label = |name: &str| role.metadata.labels.as_ref()?.get(name).map(String::as_str);
    selector.matches(label)
}
