//! The authorization modes AlwaysAllow and AlwaysDeny.

use setpoint_api::User;

use super::{Attributes, Authorize, Decision, PolicyRule, Reason, UserRules};
use crate::maybe_future::MaybeFuture;

/// Allows every request of an authenticated user.
#[derive(Debug, Clone, Copy, Default)]
pub struct AlwaysAllow;

/// Allows no request. Authorizers after it may.
#[derive(Debug, Clone, Copy, Default)]
pub struct AlwaysDeny;

impl Authorize for AlwaysAllow {
    fn authorize<'a>(&'a self, _: &'a User, _: &'a Attributes<'a>) -> MaybeFuture<'a, Decision> {
        Decision::Allowed(Reason::None).into()
    }

    fn rules_for(&self, _: &User, _: &str) -> UserRules {
        UserRules {
            rules: vec![
                PolicyRule::for_resources(&["*"], &["*"], &["*"]),
                PolicyRule::for_paths(&["*"], &["*"]),
            ],
            ..UserRules::default()
        }
    }
}

impl Authorize for AlwaysDeny {
    fn authorize<'a>(&'a self, _: &'a User, _: &'a Attributes<'a>) -> MaybeFuture<'a, Decision> {
        Decision::NoOpinion("Everything is forbidden.".into()).into()
    }
}
