//! Tokens of service accounts that are kept in secrets: fills those that were made for an account, takes them away with
//! it, notes when they are used, and clears away those that nobody has used for a year.
//!
//! Tokens are signed by whoever starts the controllers ([`Tokens`]); the key is none of their business.

mod secret;

pub mod cleaning;
pub mod filling;
pub mod tracking;

use std::fmt;
use std::sync::Arc;

pub use tracking::Uses;

/// Makes tokens.
#[derive(Clone)]
pub struct Tokens(Arc<Make>);

type Make = dyn Fn(Wanted<'_>) -> Result<String, String> + Send + Sync;

/// A token to make: the secret it is kept in, and the account it is of.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    pub namespace: &'a str,
    pub secret: &'a str,
    pub account: &'a str,
    pub account_uid: &'a str,
}

// === impl Tokens ===

impl Tokens {
    pub fn new(make: impl Fn(Wanted<'_>) -> Result<String, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    fn make(&self, wanted: Wanted<'_>) -> Result<String, String> {
        (self.0)(wanted)
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens")
    }
}
