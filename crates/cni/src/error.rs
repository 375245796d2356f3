//! Errors of the plugin, with the codes of CNI.

use std::io;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Error {
    /// The code that the runtime acts by.
    pub(crate) code: u32,
    /// The text that reaches the pod's events.
    pub(crate) message: String,
}

impl Error {
    /// An environment variable is missing or invalid.
    pub(crate) const INVALID_ENVIRONMENT: u32 = 4;
    /// A file could not be read or written, or a call of the kernel failed.
    pub(crate) const IO: u32 = 5;
    /// The configuration cannot be decoded.
    pub(crate) const INVALID_CONFIG: u32 = 7;
    /// No address is free; later there may be one.
    pub(crate) const TRY_AGAIN: u32 = 11;

    pub(crate) fn new(code: u32, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }

    /// A failed call, with what it was for.
    pub(crate) fn io(purpose: &str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::new(Self::IO, format!("{purpose}: {error}"))
    }
}
