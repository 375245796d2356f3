//! May the caller do this.

use setpoint_api::{GroupResource, Status, User};
use setpoint_auth::Authorize;
use setpoint_auth::authorize::{self, Attributes, Decision, Object};

use crate::request::Asked;
use crate::request::options::Refused;

/// Refuses what the caller may not do.
pub(crate) fn check(user: &User, asked: &Asked<'_>, decision: &Decision) -> Result<(), Refused> {
    match decision {
        Decision::Allowed(_) => Ok(()),
        Decision::Denied(reason) | Decision::NoOpinion(reason) => {
            let refusal = authorize::refusal_because(user, &asked.attributes(), reason);
            Err(Box::new(refusal))
        }
    }
}

/// Refuses to remove what cannot be read, unless the caller has the right to just that.
pub(crate) fn check_unreadable(
    authorizer: &dyn Authorize,
    user: &User,
    asked: &Asked<'_>,
) -> Result<(), Refused> {
    let attributes = Attributes {
        verb: "unsafe-delete-ignore-read-errors",
        ..asked.attributes()
    };
    let decision = authorizer.authorize(user, &attributes);
    let Object::Resource {
        group,
        resource,
        name,
        ..
    } = attributes.object
    else {
        return Ok(());
    };
    if decision.is_allowed() {
        return Ok(());
    }
    let why = format!(
        "not permitted to do {:?}, reason: {}",
        attributes.verb,
        decision.reason()
    );
    Err(Box::new(Status::forbidden(
        &GroupResource::new(group, resource),
        name,
        &why,
    )))
}
