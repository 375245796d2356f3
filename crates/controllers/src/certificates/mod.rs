//! CertificateSigningRequests: approves those of nodes for themselves, signs what was approved, and clears away what is
//! done with. Three controllers of one kind, which know nothing of each other, and one that clears away the requests of
//! pods.
//!
//! [`mod@request`] reads a request, [`rules`] says what each signer will sign, [`issue`] makes the certificate out of it;
//! all three are pure. The signers are those of Kubernetes itself, and all of them sign with the cluster's authority.

mod authority_key;
mod der;
mod issue;
mod request;
mod rules;

pub mod approving;
pub mod cleaning;
pub mod cleaning_pods;
pub mod signing;

pub use issue::Authority;

#[cfg(test)]
pub(crate) use issue::tests;
