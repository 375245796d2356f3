//! The group that may do everything.

use setpoint_api::User;

use super::{Attributes, Authorize, Decision, Reason};

/// Members of `system:masters` pass, whatever other rules say: the way back in when those rules are wrong.
#[derive(Debug, Clone, Copy, Default)]
pub struct Masters;

impl Authorize for Masters {
    fn authorize(&self, user: &User, _: &Attributes<'_>) -> Decision {
        if user.is_in(User::MASTERS) {
            Decision::Allowed(Reason::None)
        } else {
            Decision::NO_OPINION
        }
    }
}
