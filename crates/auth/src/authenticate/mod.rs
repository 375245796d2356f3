//! Authentication: from credentials to a user.
//!
//! One file per kind of credentials. [`without_tokens`] is the chain of a server with client certificates only,
//! [`cluster_authenticators`] that of a cluster: the first authenticator that recognizes the credentials decides, and a
//! caller without any is anonymous. Tokens are authenticated through [`TokenAuthenticator`], for requests and for
//! TokenReviews alike.

use std::sync::Arc;

use setpoint_api::User;

pub mod anonymous;
pub mod bearer;
pub mod bootstrap_token;
pub mod certificate;
pub mod secret_token;
pub mod service_account;
pub mod token_file;

pub use anonymous::Anonymous;
pub use bearer::{Bearer, TokenAuthenticator, TokenChain};
pub use bootstrap_token::BootstrapTokens;
pub use certificate::Certificates;
pub use secret_token::{OnTokenUse, SecretTokens};
pub use service_account::ServiceAccounts;
pub use token_file::TokenFile;

/// The key in a user's `extra` with the id of the credentials.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The credentials of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Credentials<'a> {
    /// The client certificate in DER. The TLS layer has verified it against the cluster's CA.
    pub certificate: Option<&'a [u8]>,
    /// The value of the `Authorization` header.
    pub authorization: Option<&'a str>,
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
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<Arc<User>>, AuthenticationError>;
}

/// The authenticators of a server with client certificates only, in the order they are tried.
pub fn without_tokens() -> Vec<Box<dyn Authenticate>> {
    vec![Box::new(Certificates), Box::new(Anonymous::default())]
}

/// The authenticators of a cluster, in the order they are tried.
pub fn cluster_authenticators(tokens: Arc<TokenChain>) -> Vec<Box<dyn Authenticate>> {
    vec![
        Box::new(Certificates),
        Box::new(Bearer::new(tokens)),
        Box::new(Anonymous::default()),
    ]
}

/// The union of several authenticators: the first that recognizes the credentials decides.
impl Authenticate for Vec<Box<dyn Authenticate>> {
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<Arc<User>>, AuthenticationError> {
        for one in self {
            if let Some(user) = one.authenticate(credentials)? {
                return Ok(Some(user));
            }
        }
        Ok(None)
    }
}
