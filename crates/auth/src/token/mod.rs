//! Service account tokens: claims, issuing, verification.
//!
//! A token is a JWT. It names a service account and optionally the object it is bound to, and is invalid once either is
//! deleted. The [`Issuer`] signs and verifies tokens; whether the objects still exist is checked by the authenticator.
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
pub use issuer::{InvalidToken, Issuer};
pub use legacy::LegacyClaims;
