//! Bearer tokens, whatever their kind.

use std::fmt;
use std::sync::Arc;

use setpoint_api::User;

use super::{Authenticate, Credentials, Known, Unauthenticated};

/// Knows one kind of tokens.
pub trait Tokens: Send + Sync {
    /// The user the token names, if it is a token of this kind and for one of these audiences.
    fn find(&self, token: &str, audiences: &[String]) -> Result<Option<Known>, Unauthenticated>;
}

/// All kinds of tokens a server knows, in the order they are tried.
pub struct TokenChain {
    /// Whom tokens are for that are meant for this server.
    audiences: Vec<String>,
    kinds: Vec<Box<dyn Tokens>>,
}

/// Reads the token of a request.
#[derive(Debug)]
pub struct Bearer {
    tokens: Arc<TokenChain>,
}

// === impl TokenChain ===

impl TokenChain {
    pub fn new(audiences: Vec<String>, kinds: Vec<Box<dyn Tokens>>) -> Self {
        Self { audiences, kinds }
    }

    /// Whom tokens are for that are meant for this server.
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// The user a token names, or why it names none. Everyone found here has shown credentials and is told so.
    pub fn know(&self, token: &str, audiences: &[String]) -> Result<Known, Unauthenticated> {
        let mut problems = Vec::new();
        for kind in &self.kinds {
            match kind.find(token, audiences) {
                Ok(Some(known)) => return Ok(with_group(known)),
                Ok(None) => {}
                Err(problem) => problems.push(problem.0),
            }
        }
        Err(Unauthenticated(match problems.as_slice() {
            [] => "invalid bearer token".to_owned(),
            _ => crate::authorize::rbac::listed(problems),
        }))
    }
}

fn with_group(known: Known) -> Known {
    if known.user.is_in(User::AUTHENTICATED) {
        return known;
    }
    let mut user = (*known.user).clone();
    user.groups.push(User::AUTHENTICATED.to_owned());
    Known {
        user: Arc::new(user),
        ..known
    }
}

impl fmt::Debug for TokenChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenChain")
            .field("audiences", &self.audiences)
            .field("kinds", &self.kinds.len())
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
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<Arc<User>>, Unauthenticated> {
        let Some(token) = credentials.authorization.and_then(bearer_token) else {
            return Ok(None);
        };
        let known = self.tokens.know(token, self.tokens.audiences())?;
        Ok(Some(known.user))
    }
}

/// The token in a header value; a scheme other than bearer, or an empty token, is no token.
pub(super) fn bearer_token(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.trim().split_once(' ')?;
    let token = token.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Whom a token is for that says nothing about it: this server, if it is asked for.
pub(super) fn for_server(own: &[String], asked: &[String]) -> Option<Vec<String>> {
    let both = common(own, asked);
    (!both.is_empty()).then_some(both)
}

/// What is in both lists, in the order of the first.
pub(super) fn common(own: &[String], asked: &[String]) -> Vec<String> {
    own.iter().filter(|one| asked.contains(one)).cloned().collect()
}

/// Whether two texts are equal, in a time that does not tell where they differ.
pub(super) fn same_secret(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let differ = left
        .iter()
        .zip(right)
        .fold(0, |seen, (left, right)| seen | (left ^ right));
    left.len() == right.len() && std::hint::black_box(differ) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(&'static str, Result<Option<&'static str>, &'static str>);

    impl Tokens for One {
        fn find(&self, token: &str, audiences: &[String]) -> Result<Option<Known>, Unauthenticated> {
            if token != self.0 {
                return Ok(None);
            }
            let found = self.1.map_err(|why| Unauthenticated(why.to_owned()))?;
            Ok(found.map(|name| Known {
                user: Arc::new(User::new(name, &[])),
                audiences: audiences.to_vec(),
            }))
        }
    }

    #[track_caller]
    fn check(authorization: &str, expected: Result<Option<&str>, &str>) {
        let kinds: Vec<Box<dyn Tokens>> = vec![
            Box::new(One("good", Ok(Some("alice")))),
            Box::new(One("old", Err("token has expired"))),
        ];
        let bearer = Bearer::new(Arc::new(TokenChain::new(vec!["here".to_owned()], kinds)));
        let credentials = Credentials {
            authorization: Some(authorization),
            ..Credentials::default()
        };
        let found = bearer.authenticate(&credentials);
        let found = found
            .as_ref()
            .map(|user| user.as_ref().map(|user| user.name.as_str()))
            .map_err(|error| error.0.as_str());
        assert_eq!(found, expected);
    }

    #[test]
    fn the_first_kind_that_knows_a_token_decides() {
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
    fn whoever_shows_a_token_is_authenticated() {
        let tokens = TokenChain::new(Vec::new(), vec![Box::new(One("good", Ok(Some("alice"))))]);
        let known = tokens.know("good", &[]).unwrap();
        assert_eq!(*known.user, User::new("alice", &[User::AUTHENTICATED]));
    }

    #[test]
    fn secrets_are_compared_whole() {
        assert!(same_secret("abc", "abc"));
        assert!(!same_secret("abc", "abd"));
        assert!(!same_secret("abc", "ab"));
        assert!(!same_secret("", "a"));
    }
}
