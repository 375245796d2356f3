//! Delta queues: changes of objects that wait for a handler, between a reflector and an event handler.
//!
//! There are two, as in client-go. [`RealFifo`] keeps all changes in the order of arrival and a relist as one item, so the
//! handler gets the complete new state at once; this is the one to use. [`DeltaFifo`] has one queue entry for each object,
//! which accumulates all its changes. Neither waits and neither has a lock: one task owns the queue, which also keeps the
//! changes of an object in order. [`crate::reflector::Reflector::with_delta_sink`] produces the items for either.
//!
//! The rules are client-go's, `tools/cache/the_real_fifo.go` and `tools/cache/delta_fifo.go`.

mod delta_fifo;
mod real_fifo;

use std::fmt;
use std::sync::Arc;

use setpoint_api::{Key, Stored};

pub use delta_fifo::{DeltaFifo, Deltas};
pub use real_fifo::{FifoItem, RealFifo};

/// One change of one object.
#[derive(Debug, Clone)]
pub enum Delta {
    /// It was added.
    Added(Arc<Stored>),
    /// It was updated.
    Updated(Arc<Stored>),
    /// It was deleted.
    Deleted(Deletion),
    /// It was in a list. It may be new, changed or the same as before.
    Replaced(Arc<Stored>),
    /// A periodic resync: the object is delivered again without a change.
    Sync(Arc<Stored>),
}

/// How the deletion of an object was observed.
#[derive(Debug, Clone)]
pub enum Deletion {
    /// By a watch event, with the object's final state.
    Observed(Arc<Stored>),
    /// It was missing in a list (client-go's `DeletedFinalStateUnknown`): only the last observed state is known, if any.
    FinalStateUnknown {
        /// The key of the missing object.
        key: Key,
        /// The last observed state.
        last: Option<Arc<Stored>>,
    },
}

/// Transforms an object before it is queued, for example drops unused fields. It must be idempotent.
pub type Transform = Arc<dyn Fn(Arc<Stored>) -> Arc<Stored> + Send + Sync>;

/// How much of the first list has been popped from a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Population {
    /// Nothing has been enqueued yet.
    #[default]
    Waiting,
    /// The first list was enqueued; so many of its items have yet to be popped.
    Popping(usize),
    /// All of the first list was popped, or changes came before any list.
    Done,
}

// === impl Delta ===

impl Delta {
    /// The key of the object.
    pub fn key(&self) -> &Key {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Replaced(object) | Self::Sync(object) => {
                object.key()
            }
            Self::Deleted(deletion) => deletion.key(),
        }
    }

    /// The object, if any state of it is known.
    pub fn object(&self) -> Option<&Arc<Stored>> {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Replaced(object) | Self::Sync(object) => {
                Some(object)
            }
            Self::Deleted(deletion) => deletion.last(),
        }
    }

    /// Whether the object was deleted.
    pub fn is_deletion(&self) -> bool {
        matches!(self, Self::Deleted(_))
    }
}

/// `Replaced a/x@5`; a deletion whose final state is unknown ends with `?`.
impl fmt::Display for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added(object) => write!(f, "Added {object:?}"),
            Self::Updated(object) => write!(f, "Updated {object:?}"),
            Self::Replaced(object) => write!(f, "Replaced {object:?}"),
            Self::Sync(object) => write!(f, "Sync {object:?}"),
            Self::Deleted(Deletion::Observed(last)) => write!(f, "Deleted {last:?}"),
            Self::Deleted(Deletion::FinalStateUnknown { last: Some(last), .. }) => {
                write!(f, "Deleted {last:?}?")
            }
            Self::Deleted(Deletion::FinalStateUnknown { key, last: None }) => write!(f, "Deleted {key}?"),
        }
    }
}

// === impl Gone ===

impl Deletion {
    /// The key of the deleted object.
    pub fn key(&self) -> &Key {
        match self {
            Self::Observed(last) => last.key(),
            Self::FinalStateUnknown { key, .. } => key,
        }
    }

    /// The last known state of the object, which may be older than its final state.
    pub fn last(&self) -> Option<&Arc<Stored>> {
        match self {
            Self::Observed(last) => Some(last),
            Self::FinalStateUnknown { last, .. } => last.as_ref(),
        }
    }
}

// === impl Population ===

impl Population {
    /// A change was enqueued; before the first list it means that no list will come.
    fn change(&mut self) {
        if *self == Self::Waiting {
            *self = Self::Done;
        }
    }

    /// A list of so many items was enqueued.
    fn list(&mut self, items: usize) {
        if *self == Self::Waiting {
            *self = if items == 0 {
                Self::Done
            } else {
                Self::Popping(items)
            };
        }
    }

    /// So many items were popped.
    fn take(&mut self, items: usize) {
        if let Self::Popping(left) = *self {
            *self = match left.saturating_sub(items) {
                0 => Self::Done,
                left => Self::Popping(left),
            };
        }
    }
}

#[cfg(test)]
mod tests;
