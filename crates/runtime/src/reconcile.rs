//! What a controller author writes: [`Reconcile`].

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::time::Duration;

use setpoint_api::{GroupResource, Key, Status};

/// Brings the world closer to what one object asks for.
pub trait Reconcile<K = Key>: Send + Sync {
    /// Reads what is there now, does what is missing and says when to look again.
    ///
    /// It is called with a key only, never with an event: what matters is the state, however it came about. No two calls
    /// for one key run at a time, and a call sees its predecessor's writes in the caches that the controller reads. It may
    /// be dropped at any `.await` when the process stops.
    fn reconcile(&self, key: &K) -> impl Future<Output = Result<Next, Error>> + Send;
}

/// What identifies a piece of work: small, comparable, printable.
pub trait Item: Clone + Eq + Hash + Ord + fmt::Debug + Send + Sync + 'static {}

impl<T: Clone + Eq + Hash + Ord + fmt::Debug + Send + Sync + 'static> Item for T {}

/// When a key is looked at again, besides when something changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Only when something changes.
    Done,
    /// After this time. It does not count as a failure.
    After(Duration),
}

/// Why a reconcile, or a whole controller, did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API refused. The key is tried again, later each time.
    #[error(transparent)]
    Status(Box<Status>),
    /// Something else failed. The key is tried again, later each time.
    #[error("{0}")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Trying again would fail again. The key waits for the next change.
    #[error("{0}")]
    Terminal(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A resource that a controller reads is not served.
    #[error("resource {0} is not served")]
    Unserved(GroupResource),
    /// A leader could not renew its lease. Another may lead by now.
    #[error("lost the lease {0}")]
    LostLease(Key),
    /// A part broke a promise of its own.
    #[error("{0} panicked")]
    Panicked(String),
}

// === impl Error ===

impl Error {
    /// Something failed that is worth another try.
    pub fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Failed(error.into())
    }

    /// Something failed that would fail again.
    pub fn terminal(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Terminal(error.into())
    }

    /// Whether somebody else was faster; the normal outcome of a race, not worth a warning.
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
