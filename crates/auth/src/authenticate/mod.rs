//! From what a caller shows to who it is.
//!
//! One file per kind of credentials. [`standard`] is the order in which a server without service accounts asks them,
//! [`of_cluster`] that of a cluster: the first that knows the credentials decides, and a caller who shows none is
//! anonymous. Those that know tokens are asked through [`Tokens`], by requests and by token reviews alike.

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
pub use bearer::{Bearer, TokenChain, Tokens};
pub use bootstrap_token::BootstrapTokens;
pub use certificate::Certificates;
pub use secret_token::{NoteUse, SecretTokens};
pub use service_account::ServiceAccounts;
pub use token_file::TokenFile;

/// Where the name of the very credentials stands among a user's further properties.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// What a caller shows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Credentials<'a> {
    /// The client certificate in DER. Whoever fills this in has verified it against the cluster's authority.
    pub certificate: Option<&'a [u8]>,
    /// The value of the `Authorization` header.
    pub authorization: Option<&'a str>,
}

/// The credentials are of a known kind, but they are no good.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unauthenticated(pub String);

/// A user a token names, and whom the token is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub user: Arc<User>,
    pub audiences: Vec<String>,
}

/// Knows one kind of credentials.
pub trait Authenticate: Send + Sync {
    /// The user these credentials name; `None` if there are none of the kind this one knows.
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<Arc<User>>, Unauthenticated>;
}

/// The authenticators of a server that has only certificates, in the order they are asked.
pub fn standard() -> Vec<Box<dyn Authenticate>> {
    vec![Box::new(Certificates), Box::new(Anonymous::default())]
}

/// The authenticators of a cluster, in the order they are asked.
pub fn of_cluster(tokens: Arc<TokenChain>) -> Vec<Box<dyn Authenticate>> {
    vec![
        Box::new(Certificates),
        Box::new(Bearer::new(tokens)),
        Box::new(Anonymous::default()),
    ]
}

/// Several authenticators are one: the first that knows the credentials decides.
impl Authenticate for Vec<Box<dyn Authenticate>> {
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<Arc<User>>, Unauthenticated> {
        for one in self {
            if let Some(user) = one.authenticate(credentials)? {
                return Ok(Some(user));
            }
        }
        Ok(None)
    }
}
