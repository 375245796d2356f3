//! [`Reconcile`]: the trait that a controller author implements.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::time::Duration;

use setpoint_api::{GroupResource, Key, Status};
use setpoint_client::Client;

/// Brings the cluster closer to the desired state of one object.
pub trait Reconcile<K = Key>: Send + Sync {
    /// Reads the current state, makes the missing changes, and returns when to reconcile again.
    ///
    /// It gets a key only, never an event: it is level-triggered. No two calls for one key run at the same time. The client
    /// records the writes made through it and through its clones, and the next call for the key sees them in the caches that
    /// the controller reads. A call may be dropped at any `.await` when the process stops.
    fn reconcile(&self, key: &K, client: &Client) -> impl Future<Output = Result<Next, Error>> + Send;
}

/// An item of the work queue, usually a key: small, comparable, printable.
pub trait Item: Clone + Eq + Hash + Ord + fmt::Debug + Send + Sync + 'static {}

impl<T: Clone + Eq + Hash + Ord + fmt::Debug + Send + Sync + 'static> Item for T {}

/// When a key is reconciled again, besides on changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Only on a change.
    Done,
    /// After this time (controller-runtime's `RequeueAfter`). It does not count as a failure.
    After(Duration),
}

/// Why a reconcile or a controller failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server returned an error. The key is retried with backoff.
    #[error(transparent)]
    Status(Box<Status>),
    /// Something else failed. The key is retried with backoff.
    #[error("{0}")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A retry would fail again (controller-runtime's `TerminalError`). The key waits for the next change.
    #[error("{0}")]
    Terminal(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A resource that a controller reads is not served.
    #[error("resource {0} is not served")]
    Unserved(GroupResource),
    /// The leader could not renew its lease. Another candidate may lead now.
    #[error("lost the lease {0}")]
    LostLease(Key),
    /// A task panicked.
    #[error("{0} panicked")]
    Panicked(String),
}

// === impl Error ===

impl Error {
    /// An error that is retried.
    pub fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Failed(error.into())
    }

    /// An error that is not retried.
    pub fn terminal(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Terminal(error.into())
    }

    /// Whether it is a conflict with a concurrent write; a normal outcome, not worth a warning.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Status(status) if status.is_conflict())
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::failed(error)
    }
}
