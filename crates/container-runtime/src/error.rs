//! Errors of runtime calls.

/// Why a runtime call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What the agent decides by.
    pub kind: ErrorKind,
    /// The runtime's own text, which reaches pod statuses and events.
    pub message: String,
}

/// The kinds of errors that the agent treats differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The sandbox, container or image does not exist.
    NotFound,
    /// The image reference is invalid: `InvalidImageName`.
    InvalidImageName,
    /// The image cannot be pulled: `ErrImagePull`.
    ImagePull,
    /// The registry cannot be reached: `RegistryUnavailable`.
    RegistryUnavailable,
    /// The image's signature is invalid: `SignatureValidationFailed`.
    SignatureValidation,
    /// The container cannot be created: `CreateContainerError`.
    CreateContainer,
    /// The container cannot be started: `RunContainerError`.
    StartContainer,
    /// The call took too long.
    DeadlineExceeded,
    /// The runtime does not offer this.
    Unimplemented,
    /// The runtime cannot be reached.
    Unavailable,
    /// Anything else.
    Other,
}

impl Error {
    /// An error of this kind with the runtime's text.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}
