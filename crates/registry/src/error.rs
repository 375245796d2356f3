//! What the registry can meet, and the one place where it becomes what a caller is told.

use setpoint_api::Status;
use setpoint_kinds::Problem;

/// Why the registry cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("store: {0}")]
    Store(#[from] setpoint_store::Error),
    #[error("cannot create {object}: {status}")]
    Bootstrap { object: String, status: Box<Status> },
}

/// What a caller is told about a failure of the store.
pub(crate) fn status(error: setpoint_store::Error) -> Status {
    use setpoint_store::Error as Store;
    match error {
        Store::Compacted { .. } => Status::expired("The resourceVersion for the provided list is too old."),
        Store::Future { asked, current } => {
            Status::too_large_resource_version(crate::key::version(asked), crate::key::version(current))
        }
        Store::TooLarge { limit, .. } => Status::too_large(usize::try_from(limit).unwrap_or(usize::MAX)),
        Store::Closed => Status::unavailable("the server is shutting down"),
        other => Status::internal(other),
    }
}

/// What is stored does not decode: a fault of this side.
pub(crate) fn unreadable(problem: Problem) -> Status {
    Status::internal(format!("cannot decode stored object: {problem}"))
}

/// A failure that has only words, as Kubernetes answers where it has no better reason.
pub(crate) fn plain(code: u16, message: impl Into<String>) -> Status {
    Status {
        status: "Failure".to_owned(),
        message: message.into(),
        code,
        ..Status::default()
    }
}
