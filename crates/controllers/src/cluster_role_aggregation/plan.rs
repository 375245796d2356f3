//! The rules of an aggregated ClusterRole. Pure.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use setpoint_api::selector::LabelSelector;
use setpoint_runtime::label_selector;

/// The rules of all selected roles, ordered by role name, each rule once.
pub(crate) fn rules(role: &ClusterRole, others: &[Arc<ClusterRole>]) -> Vec<PolicyRule> {
    let mut rules: Vec<PolicyRule> = Vec::new();
    let selectors = role
        .aggregation_rule
        .iter()
        .flat_map(|rule| rule.cluster_role_selectors.iter().flatten());
    for selector in selectors {
        let Ok(selector) = label_selector(selector) else {
            continue;
        };
        let mut selected: Vec<&Arc<ClusterRole>> =
            others.iter().filter(|other| selects(&selector, other)).collect();
        selected.sort_by_key(|other| other.metadata.name.clone());
        for other in selected
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

fn selects(selector: &LabelSelector, role: &ClusterRole) -> bool {
    let label = |name: &str| role.metadata.labels.as_ref()?.get(name).map(String::as_str);
    selector.matches(label)
}
