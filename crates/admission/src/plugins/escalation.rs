//! Nobody grants rights that they do not have. Who holds which is known outside of this room.

use setpoint_api::Status;
use setpoint_registry::{Operation, Review};

use crate::chain::{LateRights, Plugin};

/// The rule of roles and bindings.
#[derive(Debug)]
pub(crate) struct Escalation(pub(crate) LateRights);

impl Plugin for Escalation {
    fn name(&self) -> &'static str {
        "RBACEscalation"
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if review.kind.gvr.group != "rbac.authorization.k8s.io" || review.operation == Operation::Delete {
            return Ok(());
        }
        let (Some(rights), Some(object)) = (self.0.get(), review.object.as_deref()) else {
            return Ok(());
        };
        let old = review.old_document();
        rights.check_grant(review.user, &review.kind.gvr, object, old.as_ref())
    }
}
