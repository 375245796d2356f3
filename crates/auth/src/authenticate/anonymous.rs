//! The caller who shows nothing.

use std::sync::Arc;

use setpoint_api::User;

use super::bearer::bearer_token;
use super::{Authenticate, Credentials, Unauthenticated};

/// Everyone without credentials. A bearer token that no one before knew is refused rather than forgotten: its sender
/// believes to be someone.
#[derive(Debug)]
pub struct Anonymous {
    user: Arc<User>,
}

impl Default for Anonymous {
    fn default() -> Self {
        Self {
            user: Arc::new(User::anonymous()),
        }
    }
}

impl Authenticate for Anonymous {
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<Arc<User>>, Unauthenticated> {
        match credentials.authorization.and_then(bearer_token) {
            Some(_) => Err(Unauthenticated("unknown bearer token".to_owned())),
            None => Ok(Some(self.user.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(authorization: Option<&str>, anonymous: bool) {
        let credentials = Credentials {
            authorization,
            ..Credentials::default()
        };
        let user = Anonymous::default().authenticate(&credentials);
        assert_eq!(user.is_ok(), anonymous, "{user:?}");
    }

    #[test]
    fn no_credentials_and_unknown_schemes_are_anonymous() {
        check(None, true);
        check(Some("Basic YTpi"), true);
        check(Some("Bearer "), true);
        check(Some("xyz"), true);
    }

    #[test]
    fn a_bearer_token_nobody_knows_is_refused() {
        check(Some("Bearer abc"), false);
        check(Some("bearer abc"), false);
    }

    #[test]
    fn the_anonymous_user_is_in_the_group_of_the_unauthenticated() {
        let user = Anonymous::default()
            .authenticate(&Credentials::default())
            .unwrap()
            .unwrap();
        assert_eq!(
            (user.name.as_str(), user.groups.as_slice()),
            ("system:anonymous", &["system:unauthenticated".to_owned()][..])
        );
    }
}
