//! From what a caller shows to who it is.
//!
//! One file per kind of credentials. [`standard`] is the order in which they are asked: the first that knows the
//! credentials decides, and a caller who shows none is anonymous.

use std::sync::Arc;

use setpoint_api::User;

pub mod anonymous;
pub mod certificate;

pub use anonymous::Anonymous;
pub use certificate::Certificates;

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
#[error("invalid credentials: {0}")]
pub struct Unauthenticated(pub String);

/// Knows one kind of credentials.
pub trait Authenticate: Send + Sync {
    /// The user these credentials name; `None` if there are none of the kind this one knows.
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Option<Arc<User>>, Unauthenticated>;
}

/// The authenticators of a server, in the order they are asked.
pub fn standard() -> Vec<Box<dyn Authenticate>> {
    vec![Box::new(Certificates), Box::new(Anonymous::default())]
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
