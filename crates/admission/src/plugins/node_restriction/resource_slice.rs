//! A node creates and deletes ResourceSlices of itself. The node authorizer checks the other verbs, by the stored object.

use setpoint_registry_api::{Operation, Review};
use setpoint_schema::{Tree, fields};

use super::{Outcome, forbid, text};

pub(super) fn check(review: &Review<'_>, node: &str) -> Outcome {
    let is_own = |slice: &Tree| text(slice, &[fields::SPEC, fields::NODE_NAME]) == node;
    match review.operation {
        Operation::Create if !review.object.as_deref().is_some_and(is_own) => {
            forbid("can only create ResourceSlice with the same NodeName as the requesting node")
        }
        Operation::Delete if !review.decode_old().as_ref().is_some_and(is_own) => {
            forbid("can only delete ResourceSlice with the same NodeName as the requesting node")
        }
        _ => Ok(()),
    }
}
