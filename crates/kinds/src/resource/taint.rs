//! Device taints and tolerations.

use setpoint_schema::{Tree, fields};
use setpoint_strategy::{FieldRef, RequestFacts, meta, name};

const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];
const OPERATORS: &[&str] = &["Equal", "Exists"];

/// Defaults `timeAdded` to the time of the request.
pub(super) fn default_time_added(taint: &mut Tree, facts: &RequestFacts) {
    taint.set_default(fields::TIME_ADDED, meta::timestamp(facts.now));
}

/// Validates a taint.
pub(super) fn validate(taint: &FieldRef<'_>) {
    name::check(&taint.at(fields::KEY), name::check_qualified_name);
    if !taint.at(fields::VALUE).is_empty() {
        name::check(&taint.at(fields::VALUE), name::check_label_value);
    }
}

/// Reports what upstream's declarative validation reports.
pub(super) fn validate_declarative(taint: &FieldRef<'_>) {
    taint.at(fields::EFFECT).require_one_of(EFFECTS);
}

/// Validates tolerations.
pub(super) fn validate_tolerations(tolerations: &FieldRef<'_>) {
    for toleration in tolerations.items() {
        let value = toleration.at(fields::VALUE);
        match toleration.at(fields::OPERATOR).str() {
            "Exists" if !value.is_empty() => value.invalid("must be empty for operator `Exists`"),
            "Equal" => name::check(&value, name::check_label_value),
            _ => {}
        }
    }
}

/// Reports what upstream's declarative validation reports.
pub(super) fn validate_declarative_tolerations(tolerations: &FieldRef<'_>) {
    for toleration in tolerations.items() {
        if !toleration.at(fields::KEY).is_empty() {
            name::check(&toleration.at(fields::KEY), name::check_qualified_name);
        }
        toleration.at(fields::OPERATOR).require_one_of(OPERATORS);
        toleration.at(fields::EFFECT).one_of(EFFECTS);
    }
}
