//! Errors of patches: one variant for each response of the API server.

/// Why a patch is not applied. The texts are visible to clients, except for [`Error::Inapplicable`] and
/// [`Error::TestFailed`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The patch is malformed, whatever the object: a bad request with this message.
    #[error("{0}")]
    Malformed(String),
    /// The request is too large, with this message.
    #[error("The allowed maximum operations in a JSON patch is {max}, got {got}")]
    TooManyOperations { max: usize, got: usize },
    /// The patch cannot be applied to this object, such as a path that is missing. The reference server responds with
    /// status 422, the reason `Invalid` and a generic message; this one is for patches of admission webhooks and policies.
    #[error("{0}")]
    Inapplicable(String),
    /// A test failed. The response is the same; a policy whose test fails leaves the object as it is.
    #[error("testing value {0} failed: test failed")]
    TestFailed(String),
    /// A strategic merge patch contradicts itself or the object's type. The reference server reports an internal error
    /// with this message.
    #[error("{0}")]
    Unmergeable(String),
    /// The strategically merged object has a value of a wrong type. The response is an invalid value of the field
    /// `patch`, quoted by [`super::quoted_strategic`], with this detail.
    #[error("{0}")]
    TypeMismatch(String),
}

impl Error {
    pub(super) fn inapplicable(text: impl Into<String>) -> Self {
        Error::Inapplicable(text.into())
    }

    /// The same error of a step within another one, which names it.
    pub(super) fn within(self, step: &str) -> Self {
        match self {
            Error::Inapplicable(text) => Error::Inapplicable(format!("{step}: {text}")),
            other => other,
        }
    }

    pub(super) fn unmergeable(text: impl Into<String>) -> Self {
        Error::Unmergeable(text.into())
    }

    /// The patch body is not a JSON object.
    pub(super) fn not_an_object(prefix: &str, actual: &str) -> Self {
        Error::Malformed(format!(
            "{prefix}json: cannot unmarshal {actual} into Go value of type map[string]interface {{}}"
        ))
    }
}
