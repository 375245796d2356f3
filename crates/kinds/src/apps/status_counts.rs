//! The counts in the status of kinds that keep pods running.

use setpoint_schema::fields;
use setpoint_strategy::FieldRef;

/// Reports negative counts.
pub(crate) fn validate(status: &FieldRef<'_>, counts: &[&str]) {
    counts.iter().for_each(|count| status.at(count).not_negative());
}

/// Reports counts that are greater than `status.replicas`.
pub(crate) fn validate_within(status: &FieldRef<'_>, counts: &[&str]) {
    for count in counts {
        if status.at(count).int() > status.at(fields::REPLICAS).int() {
            status.at(count).invalid("cannot be greater than status.replicas");
        }
    }
}

/// Reports an `availableReplicas` that is greater than `readyReplicas`.
pub(crate) fn validate_available(status: &FieldRef<'_>, violation: &str) {
    let available = status.at(fields::AVAILABLE_REPLICAS);
    if available.int() > status.at(fields::READY_REPLICAS).int() {
        available.invalid(violation);
    }
}

/// Reports a `collisionCount` that was decremented or removed.
pub(super) fn validate_collisions(status: &FieldRef<'_>, old: &FieldRef<'_>) {
    let collisions = status.at(fields::COLLISION_COUNT);
    let before = old.at(fields::COLLISION_COUNT).find_int();
    if before.is_some_and(|before| collisions.find_int().is_none_or(|now| now < before)) {
        collisions.invalid_as(collisions.int(), "cannot be decremented");
    }
}
