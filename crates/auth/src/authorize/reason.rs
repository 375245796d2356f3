//! The reason of an authorizer's decision, formatted only on demand.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::rbac::Grant;

/// The reason of a decision. Most are never read, so the text is formatted on demand.
#[derive(Debug, Clone, Default)]
pub enum Reason {
    #[default]
    None,
    Text(Cow<'static, str>),
    /// The authorizer could not decide; the error.
    Failed(String),
    /// Allowed by an RBAC binding.
    Granted(Arc<Grant>),
}

impl Reason {
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Appends `: ` and the reason, if there is one.
    pub(crate) fn append_to(&self, sentence: &mut String) {
        if !self.is_none() {
            sentence.push_str(": ");
            sentence.push_str(&self.to_string());
        }
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<&'static str> for Reason {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Text(text) => f.write_str(text),
            Self::Failed(error) => f.write_str(error),
            Self::Granted(grant) => write!(f, "RBAC: allowed by {grant}"),
        }
    }
}
