//! Taints of devices, and what puts up with them.

use setpoint_schema::Tree;

use crate::at::At;
use crate::meta;
use crate::shared::name;
use crate::strategy::Facts;

const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];
const OPERATORS: &[&str] = &["Equal", "Exists"];

/// A taint knows since when it is there.
pub(super) fn fill_time(taint: &mut Tree, facts: &Facts) {
    taint.fill("timeAdded", meta::moment(facts.now));
}

/// Reports what is wrong with a taint.
pub(super) fn validate(taint: &At<'_>) {
    name::check(&taint.at("key"), name::qualified);
    if !taint.at("value").is_empty() {
        name::check(&taint.at("value"), name::label_value);
    }
}

/// Reports what the declared rules of the shape find.
pub(super) fn declared(taint: &At<'_>) {
    taint.at("effect").require_one_of(EFFECTS);
}

/// Reports what is wrong with tolerations.
pub(super) fn validate_tolerations(tolerations: &At<'_>) {
    for toleration in tolerations.items() {
        let value = toleration.at("value");
        match toleration.at("operator").str() {
            "Exists" if !value.is_empty() => value.invalid("must be empty for operator `Exists`"),
            "Equal" => name::check(&value, name::label_value),
            _ => {}
        }
    }
}

/// Reports what the declared rules of the shape find.
pub(super) fn declared_tolerations(tolerations: &At<'_>) {
    for toleration in tolerations.items() {
        if !toleration.at("key").is_empty() {
            name::check(&toleration.at("key"), name::qualified);
        }
        toleration.at("operator").require_one_of(OPERATORS);
        toleration.at("effect").one_of(EFFECTS);
    }
}
