//! Tokens of service accounts: what they say, how they are made, how they are checked.
//!
//! A token is a JWT. It names a service account and maybe the object it is bound to, and dies with either. The
//! [`Issuer`] makes and verifies them; whether the named objects still live is the authenticator's question.
//!
//! The claims are those of `pkg/serviceaccount/claims.go` in Kubernetes.
//!
//! Start reading at [`claims`], then [`issuer`].

pub mod claims;
pub mod discovery;
pub mod issuer;
pub mod legacy;
pub mod request;

pub use claims::{Claims, Ref};
pub use issuer::{Issuer, Refused};
pub use legacy::LegacyClaims;
