//! [`Error`]: why a certificate, a request or a key cannot be used.

/// Why bytes are not a certificate, a request or a key, or why something cannot be signed or verified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are not the DER encoding of the named structure.
    #[error("malformed {0}")]
    Malformed(&'static str),
    #[error("the {0} is not in PEM format")]
    Pem(&'static str),
    #[error("unsupported algorithm of the {0}")]
    UnsupportedAlgorithm(&'static str),
    #[error("the signature is not valid")]
    InvalidSignature,
    #[error("cannot generate a key: the random number generator failed")]
    Random,
    #[error("cannot sign: {0}")]
    Sign(&'static str),
}
