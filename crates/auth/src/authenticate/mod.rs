//! Authentication: from credentials to a user.
//!
//! One file per kind of credentials. [`without_tokens`] is the chain of a server with client certificates only,
//! [`cluster_authenticators`] that of a cluster: the first authenticator that recognizes the credentials decides, and a
//! caller without any is anonymous. Tokens are authenticated through [`TokenAuthenticator`], for requests and for
//! TokenReviews alike.

use std::sync::Arc;

use setpoint_api::User;

use crate::maybe_future::MaybeFuture;

pub mod anonymous;
pub mod bearer;
pub mod bootstrap_token;
pub mod certificate;
pub mod jwt;
pub mod secret_token;
pub mod service_account;
pub mod token_file;
pub mod webhook;

pub use anonymous::Anonymous;
pub use bearer::{Bearer, RemoteTokenAuthenticator, TokenAuthenticator, TokenChain};
pub use bootstrap_token::BootstrapTokens;
pub use certificate::Certificates;
pub use jwt::{AuthenticationConfig, JwtAuthenticators, JwtConfig};
pub use secret_token::{OnTokenUse, SecretTokens};
pub use service_account::ServiceAccounts;
pub use token_file::TokenFile;
pub use webhook::{WebhookTokenOptions, WebhookTokens};

/// The key in a user's `extra` with the id of the credentials.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The credentials of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Credentials<'a> {
    /// The client certificate in DER. The TLS layer has verified it against the cluster's CA.
    pub certificate: Option<&'a [u8]>,
    /// The value of the `Authorization` header.
    pub authorization: Option<&'a str>,
    /// Whether other credentials of the request were rejected. Then it cannot be anonymous.
    pub rejected: bool,
    /// The path of the URL, which anonymous authentication may be restricted to.
    pub path: &'a str,
}

/// Credentials of a known kind that are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AuthenticationError(pub String);

/// The user of a token, and the audiences it is valid for (upstream: `authenticator.Response`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenIdentity {
    pub user: Arc<User>,
    pub audiences: Vec<String>,
}

/// Authenticates one kind of credentials (upstream: `authenticator.Request`).
pub trait Authenticate: Send + Sync {
    /// The user of these credentials; `None` if there are none of this authenticator's kind.
    fn authenticate<'a>(&'a self, credentials: &'a Credentials<'a>) -> MaybeFuture<'a, AuthenticationResult>;
}

/// The user of credentials, none, or why they are invalid.
pub type AuthenticationResult = Result<Option<Arc<User>>, AuthenticationError>;

/// The authenticators of a server with client certificates only, in the order they are tried.
pub fn without_tokens() -> Vec<Box<dyn Authenticate>> {
    vec![Box::new(Certificates), Box::new(Anonymous::default())]
}

/// The authenticators of a cluster, in the order they are tried.
pub fn cluster_authenticators(
    tokens: Arc<TokenChain>,
    anonymous: Option<Anonymous>,
) -> Vec<Box<dyn Authenticate>> {
    let mut all: Vec<Box<dyn Authenticate>> = vec![Box::new(Certificates), Box::new(Bearer::new(tokens))];
    all.extend(anonymous.map(|anonymous| Box::new(anonymous) as Box<dyn Authenticate>));
    all
}

/// A request that several authenticators are tried for.
struct Attempt<'a> {
    credentials: Credentials<'a>,
    first_error: Option<AuthenticationError>,
}

/// The union of several authenticators: the first that recognizes the credentials decides. Rejected credentials of one kind
/// do not stand in the way of valid ones of another, such as a token beside an expired certificate.
impl Authenticate for Vec<Box<dyn Authenticate>> {
    fn authenticate<'a>(&'a self, credentials: &'a Credentials<'a>) -> MaybeFuture<'a, AuthenticationResult> {
        let mut attempt = Attempt {
            credentials: *credentials,
            first_error: None,
        };
        for (at, one) in self.iter().enumerate() {
            let MaybeFuture::Ready(result) = one.authenticate(&attempt.credentials) else {
                // A future that was not polled has done nothing: `resume` makes it again.
                return MaybeFuture::pending(attempt.resume(&self[at..]));
            };
            if let Some(user) = attempt.add(result) {
                return Ok(Some(user)).into();
            }
        }
        attempt.into_result().into()
    }
}

impl Attempt<'_> {
    /// Tries the rest of the authenticators, which may wait for remote servers.
    async fn resume(mut self, rest: &[Box<dyn Authenticate>]) -> AuthenticationResult {
        for one in rest {
            let result = one.authenticate(&self.credentials).resolve().await;
            if let Some(user) = self.add(result) {
                return Ok(Some(user));
            }
        }
        self.into_result()
    }

    /// Returns the user if there is one, else keeps the error.
    fn add(&mut self, result: AuthenticationResult) -> Option<Arc<User>> {
        result.unwrap_or_else(|error| {
            self.credentials.rejected = true;
            self.first_error.get_or_insert(error);
            None
        })
    }

    fn into_result(self) -> AuthenticationResult {
        self.first_error.map_or(Ok(None), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::bearer::TokenAuthenticator;
    use super::*;

    struct GoodToken;

    impl TokenAuthenticator for GoodToken {
        fn authenticate_token(
            &self,
            token: &str,
            audiences: &[String],
        ) -> Result<Option<TokenIdentity>, AuthenticationError> {
            Ok((token == "good").then(|| TokenIdentity {
                user: Arc::new(User::new("alice", &[])),
                audiences: audiences.to_vec(),
            }))
        }
    }

    #[track_caller]
    fn check(credentials: Credentials<'_>, expected: Result<Option<&str>, ()>) {
        let tokens = TokenChain::new(Vec::new(), vec![Box::new(GoodToken)]);
        let user = cluster_authenticators(Arc::new(tokens), Some(Anonymous::default()));
        let user = user.authenticate(&credentials).wait();
        let name = user
            .as_ref()
            .map(|user| user.as_ref().map(|user| user.name.as_str()));
        assert_eq!(name.map_err(|_| ()), expected, "{credentials:?}");
    }

    #[test]
    fn a_good_token_is_taken_beside_a_bad_certificate() {
        let certificate = Credentials {
            certificate: Some(b"nonsense"),
            ..Credentials::default()
        };
        let token = |authorization, credentials| Credentials {
            authorization: Some(authorization),
            ..credentials
        };
        check(certificate, Err(()));
        check(token("Bearer good", certificate), Ok(Some("alice")));
        check(token("Bearer bad", certificate), Err(()));
        let rejected = Credentials {
            rejected: true,
            ..Credentials::default()
        };
        check(rejected, Ok(None));
        check(token("Bearer good", rejected), Ok(Some("alice")));
        check(token("Basic good", rejected), Ok(None));
        check(Credentials::default(), Ok(Some("system:anonymous")));
    }
}
