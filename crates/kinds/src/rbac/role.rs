//! Role: rules that can be granted inside one namespace.

use setpoint_schema::fields;

use super::{GROUP, RULES, policy_rule};
use crate::columns::{self, Column};
use crate::field::FieldRef;
use crate::strategy::{Names, RequestFacts, Rules, Scope, Strategy};

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
