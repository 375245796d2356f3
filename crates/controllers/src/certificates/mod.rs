//! CertificateSigningRequests: three controllers that approve those of nodes for themselves, sign the approved ones and
//! delete old ones, and a fourth that deletes PodCertificateRequests. They know nothing of each other.
//!
//! [`mod@request`] parses a request, [`rules`] decides what each signer signs, [`issue`] issues the certificate; all
//! three are pure. The signers are Kubernetes' own, and all of them sign with the cluster's certificate authority.

mod issue;
mod request;
mod rules;

pub mod approver;
pub mod cleaner;
pub mod podcertificaterequest_cleaner;
pub mod signer;

pub use issue::Authority;

#[cfg(test)]
pub(crate) use issue::tests;
