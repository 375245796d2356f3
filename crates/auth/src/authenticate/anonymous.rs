//! The anonymous user, for requests without credentials.

use std::sync::Arc;

use setpoint_api::User;

use super::bearer::bearer_token;
use super::{Authenticate, AuthenticationError, Credentials};

/// Authenticates requests without credentials as `system:anonymous`. A bearer token that no authenticator recognized is
/// rejected: its sender does not expect to be anonymous. Nor does the sender of other credentials that were rejected.
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
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<Arc<User>>, AuthenticationError> {
        match credentials.authorization.and_then(bearer_token) {
            Some(_) => Err(AuthenticationError("unknown bearer token".to_owned())),
            None if credentials.rejected => Ok(None),
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
    fn an_unknown_bearer_token_is_rejected() {
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
