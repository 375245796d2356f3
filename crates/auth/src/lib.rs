//! Who is calling, and may they: two questions, two traits.
//!
//! [`Authenticate`] turns what a caller shows into a [`User`](setpoint_api::User); [`Authorize`] says whether that user
//! may do what is asked. Both answer from memory: nothing here waits, speaks HTTP or writes an object. A rule that must
//! look at the object itself is admission, not authorization; the one exception is [`escalate`], which compares rules
//! with rules.
//!
//! Start reading at [`authenticate`], then [`authorize`]; tokens are made in [`token`].

pub mod access;
pub mod audit;
pub mod authenticate;
pub mod authorize;
pub mod escalate;
pub mod impersonate;
pub mod keys;
pub mod later;
pub mod review;
pub mod service_account;
pub mod token;

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod transcripts;

pub use access::Access;
pub use authenticate::{Authenticate, Credentials, Unauthenticated};
pub use authorize::{Attributes, Authorize, Decision};
pub use escalate::Escalation;
pub use later::Later;
pub use token::Issuer;
