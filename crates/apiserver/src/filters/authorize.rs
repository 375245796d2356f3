//! Authorization of a request.

use setpoint_api::{GroupResource, Status, User};
use setpoint_auth::Authorize;
use setpoint_auth::authorize::{self, AccessTarget, Attributes, Decision};

use crate::request::RequestInfo;
use crate::request::options::StatusError;

/// Returns the 403 Forbidden error unless the request is allowed.
pub(crate) fn check(
    user: &User,
    request_info: &RequestInfo<'_>,
    decision: &Decision,
) -> Result<(), StatusError> {
    match decision {
        Decision::Allowed(_) => Ok(()),
        Decision::Denied(reason) | Decision::NoOpinion(reason) => {
            let forbidden = authorize::forbidden_with_reason(user, &request_info.attributes(), reason);
            Err(Box::new(forbidden))
        }
    }
}

/// Checks the permission to delete an object that cannot be decoded, which is a verb of its own.
pub(crate) fn check_unreadable(
    authorizer: &dyn Authorize,
    user: &User,
    request_info: &RequestInfo<'_>,
) -> Result<(), StatusError> {
    let attributes = Attributes {
        verb: "unsafe-delete-ignore-read-errors",
        ..request_info.attributes()
    };
    let decision = authorizer.authorize(user, &attributes);
    let AccessTarget::Resource {
        group,
        resource,
        name,
        ..
    } = attributes.target
    else {
        return Ok(());
    };
    if decision.is_allowed() {
        return Ok(());
    }
    let message = format!(
        "not permitted to do {:?}, reason: {}",
        attributes.verb,
        decision.reason()
    );
    Err(Box::new(Status::forbidden(
        &GroupResource::new(group, resource),
        name,
        &message,
    )))
}
