//! ClusterRole: rules that can be granted anywhere, perhaps gathered from other roles by their labels.

use setpoint_api::field::Errors;

use super::{GROUP, RULES, policy_rule};
use crate::at::At;
use crate::columns::{self, Column};
use crate::shared::label_selector;
use crate::strategy::{Names, Rules, Scope, Strategy};

#[derive(Debug)]
pub struct ClusterRole;

impl Strategy for ClusterRole {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "ClusterRole");
    const NAMES: Names = Names::new("clusterroles", "clusterrole");
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[columns::NAME, columns::CREATED_AT];
    const RULES: Rules = RULES;

    fn validate(role: &At<'_>) {
        policy_rule::validate(&role.at("rules"), Scope::Cluster);
        if role.at("aggregationRule").is_set() {
            validate_selectors(&role.at("aggregationRule").at("clusterRoleSelectors"));
        }
        policy_rule::declared(&role.at("rules"));
    }
}

fn validate_selectors(selectors: &At<'_>) {
    if selectors.is_empty() {
        selectors.required("at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for selector in selectors.items() {
        label_selector::validate(&selector);
        if !can_select(&selector) {
            selector.invalid_as((), "invalid label selector.");
        }
    }
}

fn can_select(selector: &At<'_>) -> bool {
    let errors = Errors::default();
    label_selector::validate(&selector.reported_at(errors.clone()));
    errors.is_empty()
}
