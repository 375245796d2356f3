//! Authentication, authorization, service account tokens, access reviews and audit.
//!
//! [`Authenticate`] maps a caller's credentials to a [`User`](setpoint_api::User); [`Authorize`] decides whether that
//! user may make a request. Both decide from memory, unless a webhook or an OpenID provider is configured; those
//! are called through [`remote`], since nothing here uses HTTP or writes an object. A rule that must
//! look at the object itself is admission, not authorization; the one exception is [`escalate`], which compares RBAC
//! rules with RBAC rules.
//!
//! Start reading at [`authenticate`], then [`authorize`]; tokens are issued in [`token`].

pub mod access_control;
pub mod audit;
pub mod authenticate;
pub mod authorize;
pub mod config_file;
pub mod create_on_update;
pub mod escalate;
mod expiring_cache;
pub mod expression;
pub mod impersonate;
pub mod keys;
pub mod maybe_future;
pub mod remote;
pub mod review;
pub mod service_account;
pub mod token;

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod transcripts;

pub use access_control::{AccessControl, AccessOptions};
pub use authenticate::{Authenticate, AuthenticationError, Credentials};
pub use authorize::{Attributes, Authorize, Decision};
pub use escalate::EscalationCheck;
pub use maybe_future::MaybeFuture;
pub use token::Issuer;
