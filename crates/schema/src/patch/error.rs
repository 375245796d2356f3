//! Why a patch is not applied: one variant for each answer a caller gives.

/// Why a patch is not applied. The texts are the ones clients see, except for [`Error::Inapplicable`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The patch has not the form it must have, whatever the object: a bad request, in these words.
    #[error("{0}")]
    Malformed(String),
    /// The request is too large, in these words.
    #[error("The allowed maximum operations in a JSON patch is {most}, got {got}")]
    TooManyOperations { most: usize, got: usize },
    /// The patch cannot be carried out on this object: a test failed, a path is missing. The reference server answers
    /// with status 422, the reason `Invalid` and a general text; this one is for the server's own log.
    #[error("{0}")]
    Inapplicable(String),
    /// A strategic merge patch contradicts itself or the object's type. The reference server counts this as its own
    /// failure, an internal error in these words.
    #[error("{0}")]
    Unmergeable(String),
    /// The strategically merged object has a value of a wrong type. The answer is an invalid value of the field
    /// `patch`, which is shown as `patch`, for the reason `why`.
    #[error("{why}")]
    Mistyped { patch: String, why: String },
}

impl Error {
    pub(super) fn inapplicable(text: impl Into<String>) -> Self {
        Error::Inapplicable(text.into())
    }

    pub(super) fn unmergeable(text: impl Into<String>) -> Self {
        Error::Unmergeable(text.into())
    }

    /// A body whose JSON type cannot be a patch of its kind.
    pub(super) fn not_an_object(prefix: &str, given: &str) -> Self {
        Error::Malformed(format!(
            "{prefix}json: cannot unmarshal {given} into Go value of type map[string]interface {{}}"
        ))
    }
}
