//! Bearer tokens: the chain of token authenticators.

use std::fmt;
use std::sync::Arc;

use setpoint_api::User;

use super::{Authenticate, AuthenticationError, AuthenticationResult, Credentials, TokenIdentity};
use crate::maybe_future::{BoxFuture, MaybeFuture};

/// Authenticates one kind of tokens (upstream: `authenticator.Token`).
pub trait TokenAuthenticator: Send + Sync {
    /// The user of the token; `None` if it is not a token of this kind, or for none of these audiences.
    fn authenticate_token(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<Option<TokenIdentity>, AuthenticationError>;
}

/// Authenticates tokens by a remote server: a webhook, or an OpenID provider's keys.
pub trait RemoteTokenAuthenticator: Send + Sync {
    /// The user of the token; `None` if it is not a token of this kind, or for none of these audiences.
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
    ) -> BoxFuture<'a, Result<Option<TokenIdentity>, AuthenticationError>>;
}

/// The token authenticators of a server, in the order they are tried: those that decide from memory, then the remote
/// ones.
pub struct TokenChain {
    /// The audiences of the server itself.
    audiences: Vec<String>,
    authenticators: Vec<Box<dyn TokenAuthenticator>>,
    remote: Vec<Box<dyn RemoteTokenAuthenticator>>,
}

/// The user of a token, or why the token is invalid.
type TokenResult = Result<TokenIdentity, AuthenticationError>;

/// Authenticates a request by its bearer token.
#[derive(Debug)]
pub struct Bearer {
    tokens: Arc<TokenChain>,
}

// === impl TokenChain ===

impl TokenChain {
    pub fn new(audiences: Vec<String>, authenticators: Vec<Box<dyn TokenAuthenticator>>) -> Self {
        Self {
            audiences,
            authenticators,
            remote: Vec::new(),
        }
    }

    /// The same with remote authenticators.
    #[must_use]
    pub fn with_remote(self, remote: Vec<Box<dyn RemoteTokenAuthenticator>>) -> Self {
        Self { remote, ..self }
    }

    /// The audiences of the server itself.
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// The user of a token, with the group `system:authenticated`, or why the token is invalid.
    pub fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
    ) -> MaybeFuture<'a, TokenResult> {
        let mut problems = Vec::new();
        for kind in &self.authenticators {
            match kind.authenticate_token(token, audiences) {
                Ok(Some(identity)) => return Ok(with_group(identity)).into(),
                Ok(None) => {}
                Err(problem) => problems.push(problem.0),
            }
        }
        match self.remote.is_empty() {
            true => Err(invalid(problems)).into(),
            false => MaybeFuture::pending(self.authenticate_remotely(token, audiences, problems)),
        }
    }

    async fn authenticate_remotely(
        &self,
        token: &str,
        audiences: &[String],
        mut problems: Vec<String>,
    ) -> TokenResult {
        for kind in &self.remote {
            match kind.authenticate_token(token, audiences).await {
                Ok(Some(identity)) => return Ok(with_group(identity)),
                Ok(None) => {}
                Err(problem) => problems.push(problem.0),
            }
        }
        Err(invalid(problems))
    }
}

fn invalid(problems: Vec<String>) -> AuthenticationError {
    AuthenticationError(match problems.as_slice() {
        [] => "invalid bearer token".to_owned(),
        _ => crate::authorize::rbac::join_unique(problems),
    })
}

fn with_group(identity: TokenIdentity) -> TokenIdentity {
    if identity.user.is_in(User::AUTHENTICATED) {
        return identity;
    }
    let mut user = (*identity.user).clone();
    user.groups.push(User::AUTHENTICATED.to_owned());
    TokenIdentity {
        user: Arc::new(user),
        ..identity
    }
}

impl fmt::Debug for TokenChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenChain")
            .field("audiences", &self.audiences)
            .field("authenticators", &self.authenticators.len())
            .finish()
    }
}

// === impl Bearer ===

impl Bearer {
    pub fn new(tokens: Arc<TokenChain>) -> Self {
        Self { tokens }
    }
}

impl Authenticate for Bearer {
    fn authenticate<'a>(&'a self, credentials: &'a Credentials<'a>) -> MaybeFuture<'a, AuthenticationResult> {
        let Some(token) = credentials.authorization.and_then(bearer_token) else {
            return Ok(None).into();
        };
        let user = |result: TokenResult| result.map(|identity| Some(identity.user));
        match self.tokens.authenticate_token(token, self.tokens.audiences()) {
            MaybeFuture::Ready(result) => user(result).into(),
            MaybeFuture::Pending(pending) => MaybeFuture::pending(async move { user(pending.await) }),
        }
    }
}

/// The token of an `Authorization` header; `None` for a scheme other than bearer, or an empty token.
pub(super) fn bearer_token(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.trim().split_once(' ')?;
    let token = token.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The audiences of a token that has no audience claim: those of the server that are requested.
pub(super) fn server_audiences(own: &[String], requested: &[String]) -> Option<Vec<String>> {
    let audiences = intersect(own, requested);
    (!audiences.is_empty()).then_some(audiences)
}

/// The audiences in both lists, in the order of the first.
pub(super) fn intersect(own: &[String], requested: &[String]) -> Vec<String> {
    own.iter()
        .filter(|one| requested.contains(one))
        .cloned()
        .collect()
}

/// Whether two texts are equal, in constant time.
pub(super) fn constant_time_eq(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let differ = left
        .iter()
        .zip(right)
        .fold(0, |difference, (left, right)| difference | (left ^ right));
    left.len() == right.len() && std::hint::black_box(differ) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    struct OneToken(&'static str, Result<Option<&'static str>, &'static str>);

    impl TokenAuthenticator for OneToken {
        fn authenticate_token(
            &self,
            token: &str,
            audiences: &[String],
        ) -> Result<Option<TokenIdentity>, AuthenticationError> {
            if token != self.0 {
                return Ok(None);
            }
            let found = self.1.map_err(|why| AuthenticationError(why.to_owned()))?;
            Ok(found.map(|name| TokenIdentity {
                user: Arc::new(User::new(name, &[])),
                audiences: audiences.to_vec(),
            }))
        }
    }

    #[track_caller]
    fn check(authorization: &str, expected: Result<Option<&str>, &str>) {
        let authenticators: Vec<Box<dyn TokenAuthenticator>> = vec![
            Box::new(OneToken("good", Ok(Some("alice")))),
            Box::new(OneToken("old", Err("token has expired"))),
        ];
        let bearer = Bearer::new(Arc::new(TokenChain::new(vec!["here".to_owned()], authenticators)));
        let credentials = Credentials {
            authorization: Some(authorization),
            ..Credentials::default()
        };
        let found = bearer.authenticate(&credentials).wait();
        let found = found
            .as_ref()
            .map(|user| user.as_ref().map(|user| user.name.as_str()))
            .map_err(|error| error.0.as_str());
        assert_eq!(found, expected);
    }

    #[test]
    fn the_first_authenticator_that_recognizes_a_token_decides() {
        check("Bearer good", Ok(Some("alice")));
        check("bearer  good", Ok(None));
        check("Bearer good better", Ok(Some("alice")));
        check("Bearer old", Err("token has expired"));
        check("Bearer unknown", Err("invalid bearer token"));
    }

    #[test]
    fn other_schemes_are_no_tokens() {
        check("Basic good", Ok(None));
        check("Bearer ", Ok(None));
        check("good", Ok(None));
    }

    #[test]
    fn a_user_with_a_token_is_in_the_group_of_the_authenticated() {
        let tokens = TokenChain::new(Vec::new(), vec![Box::new(OneToken("good", Ok(Some("alice"))))]);
        let identity = tokens.authenticate_token("good", &[]).wait().unwrap();
        assert_eq!(*identity.user, User::new("alice", &[User::AUTHENTICATED]));
    }

    #[test]
    fn secrets_are_compared_whole() {
        assert!(constant_time_eq("abc", "abc"));
        assert!(!constant_time_eq("abc", "abd"));
        assert!(!constant_time_eq("abc", "ab"));
        assert!(!constant_time_eq("", "a"));
    }
}
