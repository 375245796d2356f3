//! The anonymous user, for requests without credentials.

use std::sync::Arc;

use setpoint_api::User;

use super::bearer::bearer_token;
use super::{Authenticate, AuthenticationError, AuthenticationResult, Credentials};
use crate::maybe_future::MaybeFuture;

/// Authenticates requests without credentials as `system:anonymous`. A bearer token that no authenticator recognized is
/// rejected: its sender does not expect to be anonymous. Nor does the sender of other credentials that were rejected.
#[derive(Debug)]
pub struct Anonymous {
    user: Arc<User>,
    /// The only paths that may be requested anonymously; all if empty.
    paths: Vec<String>,
}

impl Anonymous {
    /// Only for requests of these paths; for all if there are none.
    pub fn on_paths(paths: Vec<String>) -> Self {
        Self {
            user: Arc::new(User::anonymous()),
            paths,
        }
    }
}

impl Default for Anonymous {
    fn default() -> Self {
        Self::on_paths(Vec::new())
    }
}

impl Authenticate for Anonymous {
    fn authenticate<'a>(&'a self, credentials: &'a Credentials<'a>) -> MaybeFuture<'a, AuthenticationResult> {
        if credentials.authorization.and_then(bearer_token).is_some() {
            return Err(AuthenticationError("unknown bearer token".to_owned())).into();
        }
        let is_open = self.paths.is_empty() || self.paths.iter().any(|path| path == credentials.path);
        let is_anonymous = is_open && !credentials.rejected;
        Ok(is_anonymous.then(|| self.user.clone())).into()
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
        let user = Anonymous::default().authenticate(&credentials).wait();
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
    fn anonymous_requests_may_be_limited_to_paths() {
        let anonymous = Anonymous::on_paths(vec!["/livez".to_owned(), "/readyz".to_owned()]);
        for (path, expected) in [
            ("/livez", true),
            ("/readyz", true),
            ("/livez/ping", false),
            ("/api", false),
        ] {
            let credentials = Credentials {
                path,
                ..Credentials::default()
            };
            let user = anonymous.authenticate(&credentials).wait().unwrap();
            assert_eq!(user.is_some(), expected, "{path}");
        }
    }

    #[test]
    fn the_anonymous_user_is_in_the_group_of_the_unauthenticated() {
        let user = Anonymous::default().authenticate(&Credentials::default()).wait();
        let user = user.unwrap().unwrap();
        assert_eq!(
            (user.name.as_str(), user.groups.as_slice()),
            ("system:anonymous", &["system:unauthenticated".to_owned()][..])
        );
    }
}
