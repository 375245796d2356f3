//! ClusterRole: rules that can be granted anywhere, optionally aggregated from other roles by their labels.

use setpoint_api::field::Errors;
use setpoint_schema::fields;
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy, label_selector};

use super::{GROUP, RULES, policy_rule};

#[derive(Debug)]
pub struct ClusterRole;

impl Strategy for ClusterRole {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "ClusterRole");
    const NAMES: Names = Names::new("clusterroles", "clusterrole");
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[columns::NAME, columns::CREATED_AT];
    const RULES: Rules = RULES;

    fn validate(role: &FieldRef<'_>, _facts: &RequestFacts) {
        policy_rule::validate(&role.at(fields::RULES), Scope::Cluster);
        if role.at(fields::AGGREGATION_RULE).is_set() {
            validate_selectors(
                &role
                    .at(fields::AGGREGATION_RULE)
                    .at(fields::CLUSTER_ROLE_SELECTORS),
            );
        }
        policy_rule::validate_declarative(&role.at(fields::RULES));
    }
}

fn validate_selectors(selectors: &FieldRef<'_>) {
    if selectors.is_empty() {
        selectors.required("at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for selector in selectors.items() {
        label_selector::validate(&selector);
        if !is_valid_selector(&selector) {
            selector.invalid_as((), "invalid label selector.");
        }
    }
}

fn is_valid_selector(selector: &FieldRef<'_>) -> bool {
    let errors = Errors::default();
    label_selector::validate(&selector.with_errors(errors.clone()));
    errors.is_empty()
}
