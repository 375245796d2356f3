//! The privileged group `system:masters`.

use setpoint_api::User;

use super::{Attributes, Authorize, Decision, Reason};

/// Allows everything to members of `system:masters`, before all other authorizers: the way to repair wrong RBAC rules.
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
