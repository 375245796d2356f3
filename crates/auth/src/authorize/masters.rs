//! The privileged group `system:masters`.

use setpoint_api::User;

use super::{Attributes, Authorize, Decision, Reason};
use crate::maybe_future::MaybeFuture;

/// Allows everything to members of `system:masters`, before all other authorizers: the way to repair wrong RBAC rules.
#[derive(Debug, Clone, Copy, Default)]
pub struct Masters;

impl Authorize for Masters {
    fn authorize<'a>(&'a self, user: &'a User, _: &'a Attributes<'a>) -> MaybeFuture<'a, Decision> {
        let decision = match user.is_in(User::MASTERS) {
            true => Decision::Allowed(Reason::None),
            false => Decision::NO_OPINION,
        };
        decision.into()
    }
}
