//! Errors of templates, with the texts of Go's `text/template`.

/// A template that cannot be parsed, or whose execution stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not a template. The message has the template's name and the line.
    #[error("{0}")]
    Parse(String),
    /// The execution stopped. The message has the template's name, line and column, and the action.
    #[error("{0}")]
    Execution(String),
}

impl Error {
    pub(crate) fn parse(message: String) -> Self {
        Self::Parse(message)
    }
}
