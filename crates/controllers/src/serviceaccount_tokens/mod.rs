//! Legacy service account tokens, in Secrets: one controller generates the tokens and deletes them with their
//! ServiceAccount, one records their last use, and one deletes those that have not been used for a year.
//!
//! The process passes in a [`TokenGenerator`] that signs the tokens; the controllers never see the key.

mod secret;

pub mod legacy_serviceaccount_token_cleaner;
pub mod legacy_token_tracking;
pub mod serviceaccount_token;

use std::fmt;
use std::sync::Arc;

pub use legacy_token_tracking::TokenUses;

/// Generates signed tokens.
#[derive(Clone)]
pub struct TokenGenerator(Arc<Generate>);

type Generate = dyn Fn(LegacyTokenSpec<'_>) -> Result<String, String> + Send + Sync;

/// The claims of a token: the Secret it is stored in, and its ServiceAccount.
#[derive(Debug, Clone, Copy)]
pub struct LegacyTokenSpec<'a> {
    pub namespace: &'a str,
    pub secret: &'a str,
    pub account: &'a str,
    pub account_uid: &'a str,
}

// === impl TokenGenerator ===

impl TokenGenerator {
    pub fn new(
        generate: impl Fn(LegacyTokenSpec<'_>) -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(generate))
    }

    fn generate(&self, spec: LegacyTokenSpec<'_>) -> Result<String, String> {
        (self.0)(spec)
    }
}

impl fmt::Debug for TokenGenerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenGenerator")
    }
}
