//! Authorization of a deletion that ignores read errors.

use setpoint_api::{GroupResource, Status, User};
use setpoint_auth::Authorize;
use setpoint_auth::authorize::{AccessTarget, Attributes};

use crate::request::RequestInfo;
use crate::request::options::StatusError;

/// Checks the permission to delete an object that cannot be decoded, which is a verb of its own.
pub(crate) async fn check_unreadable(
    authorizer: &dyn Authorize,
    user: &User,
    request_info: &RequestInfo<'_>,
) -> Result<(), StatusError> {
    let attributes = Attributes {
        verb: "unsafe-delete-ignore-read-errors",
        ..request_info.attributes()
    };
    let decision = authorizer.authorize(user, &attributes).resolve().await;
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
