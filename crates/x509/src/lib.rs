//! X.509 certificates and PKCS #10 certificate requests (RFC 5280, RFC 2986): reading them, and issuing certificates.
//!
//! It covers what a Kubernetes cluster needs: subjects, validity, public keys, alternative names, the CA flag, and keys
//! of the usual algorithms. Chains are verified by rustls, never here. Everything borrows from the DER bytes it was
//! read from, so that a subject can be copied byte by byte: every organization in it is a group.
//!
//! Start reading at [`Certificate`], then [`CertificateTemplate`].

pub mod der;
pub mod extension;
pub mod oid;
pub mod pem;

mod certificate;
mod error;
mod name;
mod private_key;
mod public_key;
mod request;
mod template;

pub use certificate::Certificate;
pub use error::Error;
pub use extension::{Extension, GeneralName};
pub use name::{Attribute, Name};
pub use private_key::{KeyType, PrivateKey, pkcs8_encodings};
pub use public_key::{PublicKeyInfo, encode_elliptic_curve_key, encode_rsa_key};
pub use request::{CertificateRequest, sign_request};
pub use template::CertificateTemplate;
