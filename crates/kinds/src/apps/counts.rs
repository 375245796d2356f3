//! The counts in the status of kinds that keep pods running.

use crate::at::At;

/// Reports counts below zero.
pub(crate) fn validate(status: &At<'_>, counts: &[&str]) {
    counts.iter().for_each(|count| status.at(count).not_negative());
}

/// Reports counts of some of the pods that are above the count of them all.
pub(crate) fn validate_within(status: &At<'_>, counts: &[&str]) {
    for count in counts {
        if status.at(count).int() > status.at("replicas").int() {
            status.at(count).invalid("cannot be greater than status.replicas");
        }
    }
}

/// Reports more available pods than ready ones.
pub(crate) fn validate_available(status: &At<'_>, complaint: &str) {
    let available = status.at("availableReplicas");
    if available.int() > status.at("readyReplicas").int() {
        available.invalid(complaint);
    }
}

/// Reports a count of name collisions that went down or away.
pub(super) fn validate_collisions(status: &At<'_>, old: &At<'_>) {
    let collisions = status.at("collisionCount");
    let before = old.at("collisionCount").find_int();
    if before.is_some_and(|before| collisions.find_int().is_none_or(|now| now < before)) {
        collisions.invalid_as(collisions.int(), "cannot be decremented");
    }
}
