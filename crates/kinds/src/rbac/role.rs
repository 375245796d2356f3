//! Role: rules that can be granted inside one namespace.

use setpoint_schema::fields;
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy};

use super::{GROUP, RULES, policy_rule};

#[derive(Debug)]
pub struct Role;

impl Strategy for Role {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "Role");
    const NAMES: Names = Names::new("roles", "role");
    const COLUMNS: &'static [Column] = &[columns::NAME, columns::CREATED_AT];
    const RULES: Rules = RULES;

    fn validate(role: &FieldRef<'_>, _facts: &RequestFacts) {
        policy_rule::validate(&role.at(fields::RULES), Scope::Namespaced);
        policy_rule::validate_declarative(&role.at(fields::RULES));
    }
}
