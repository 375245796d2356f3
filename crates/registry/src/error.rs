//! Errors of the registry, and the conversion of store errors to a [`Status`].

use setpoint_api::Status;
use setpoint_strategy::InvalidObject;

/// Why the registry cannot start, or has to stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("store: {0}")]
    Store(#[from] setpoint_store::Error),
    #[error("cannot create {object}: {status}")]
    Bootstrap { object: String, status: Box<Status> },
}

/// The status for an error of the store.
pub(crate) fn from_store(error: setpoint_store::Error) -> Status {
    use setpoint_store::Error as Store;
    match error {
        Store::Compacted { .. } => Status::expired("The resourceVersion for the provided list is too old."),
        Store::Future { requested, current } => {
            Status::too_large_resource_version(crate::key::version(requested), crate::key::version(current))
        }
        Store::TooLarge { limit, .. } => {
            Status::request_entity_too_large(usize::try_from(limit).unwrap_or(usize::MAX))
        }
        // Kubernetes returns etcd's "database space exceeded" without a reason, too.
        full @ Store::NoSpace { .. } => plain(
            500,
            format!("storage space exceeded: only reads and deletes are served until there is space; {full}"),
        ),
        full @ Store::OutOfFiles { .. } => plain(500, format!("storage is not available: {full}")),
        // Kubernetes returns errors of etcd without a reason.
        Store::Remote { message, .. } => plain(500, message),
        // A value that cannot be encrypted, or what is stored cannot be decrypted: the error of the provider alone.
        Store::Undecodable { reason, .. } => Status::internal(reason),
        Store::Closed => Status::unavailable("the server is shutting down"),
        other => Status::internal(other),
    }
}

/// The status for a stored object that cannot be decoded, or not be converted: an error of the server.
pub(crate) fn undecodable(problem: InvalidObject) -> Status {
    match problem {
        InvalidObject::Malformed(_) => Status::internal(format!("cannot decode stored object: {problem}")),
        InvalidObject::Unconverted { .. } => Status::internal(problem),
    }
}

/// A failure with a message and no reason, as Kubernetes returns for a plain Go error.
pub(crate) fn plain(code: u16, message: impl Into<String>) -> Status {
    Status {
        status: "Failure".to_owned(),
        message: message.into(),
        code,
        ..Status::default()
    }
}
