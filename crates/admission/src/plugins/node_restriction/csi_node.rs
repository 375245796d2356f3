//! A node writes its own CSINode. Its status belongs to a feature that is off by default.

use setpoint_registry_api::Review;

use super::{Outcome, forbid};

pub(super) fn check(review: &Review<'_>, node: &str) -> Outcome {
    if review.name != node {
        return forbid("can only access CSINode with the same name as the requesting node");
    }
    match review.subresource {
        Some("status") => forbid("CSIVolumeHealth feature gate is disabled"),
        _ => Ok(()),
    }
}
