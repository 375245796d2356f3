//! Tolerations: the node taints that a pod tolerates.

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, name};

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Validates tolerations.
pub(crate) fn validate(tolerations: &FieldRef<'_>) {
    tolerations
        .items()
        .for_each(|toleration| validate_one(&toleration));
}

/// Validates a toleration.
pub(crate) fn validate_one(toleration: &FieldRef<'_>) {
    let (key, operator, effect) = (
        toleration.at(fields::KEY),
        toleration.at(fields::OPERATOR),
        toleration.at(fields::EFFECT),
    );
    if !key.is_empty() {
        name::check(&key, name::check_qualified_name);
    } else if operator.str() != "Exists" {
        operator.invalid(
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        );
    }
    if toleration.at(fields::TOLERATION_SECONDS).is_set() && effect.str() != "NoExecute" {
        effect.invalid("effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    validate_operator(&operator, toleration.at(fields::VALUE).str());
    effect.one_of(EFFECTS);
}

fn validate_operator(operator: &FieldRef<'_>, value: &str) {
    match operator.str() {
        "Equal" | "" => {
            let violations = name::check_label_value(value);
            if !violations.is_empty() {
                operator.invalid_as(value, &violations.join(";"));
            }
        }
        "Exists" if !value.is_empty() => {
            operator.invalid_as(value, "value must be empty when `operator` is 'Exists'");
        }
        "Exists" => {}
        "Lt" | "Gt" => operator.not_supported(&["Equal", "Exists", "Lt", "Gt"]),
        _ => operator.not_supported(&["Equal", "Exists"]),
    }
}
