//! A node writes its own heartbeat lease.

use setpoint_registry_api::Review;

use super::{Outcome, forbid};

const NAMESPACE: &str = "kube-node-lease";

pub(super) fn check(review: &Review<'_>, node: &str) -> Outcome {
    if review.namespace != NAMESPACE {
        return forbid(format!(
            "can only access leases in the {NAMESPACE:?} system namespace"
        ));
    }
    match review.name == node {
        true => Ok(()),
        false => forbid("can only access node lease with the same name as the requesting node"),
    }
}
