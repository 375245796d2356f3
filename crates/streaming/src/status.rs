//! [`Outcome`]: how a command ended, and what its client gets on the error channel.

use serde_json::{Value, json};

/// How a command or an attach ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It exited with code 0, or the container ended.
    Success,
    /// The command exited with another code.
    Exited {
        /// The exit code.
        code: i32,
        /// The runtime's text.
        message: String,
    },
    /// The command could not be run.
    Failed(String),
}

/// The form of the error channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    /// The text of an error, or nothing; before v4.
    Text,
    /// A Status object.
    Status,
}

impl Outcome {
    /// The bytes on the error channel.
    pub(crate) fn encode(&self, format: ErrorFormat) -> Vec<u8> {
        match format {
            ErrorFormat::Text => self.message().into_bytes(),
            ErrorFormat::Status => self.status().to_string().into_bytes(),
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Success => String::new(),
            Self::Exited { message, .. } => {
                format!("command terminated with non-zero exit code: {message}")
            }
            Self::Failed(reason) => format!("Internal error occurred: {reason}"),
        }
    }

    fn status(&self) -> Value {
        let message = self.message();
        match self {
            Self::Success => json!({"metadata": {}, "status": "Success"}),
            Self::Exited { code, .. } => json!({
                "metadata": {},
                "status": "Failure",
                "message": message,
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
            }),
            Self::Failed(_) => json!({
                "metadata": {},
                "status": "Failure",
                "message": message,
                "reason": "InternalError",
                "code": 500,
            }),
        }
    }
}
