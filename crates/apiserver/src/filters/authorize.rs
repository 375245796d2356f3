//! May the caller do this.

use setpoint_api::User;
use setpoint_auth::Authorize;
use setpoint_auth::authorize;

use crate::request::Asked;
use crate::request::options::Refused;

/// Refuses what the caller may not do.
pub(crate) fn check(authorizer: &dyn Authorize, user: &User, asked: &Asked<'_>) -> Result<(), Refused> {
    authorize::check(authorizer, user, &asked.attributes())
}
