//! Delta queues: what happened to objects and has yet to be told, between one who watches and one who handles.
//!
//! There are two forms. [`InOrder`] keeps everything in the order of arrival and a relist as one item, so whoever takes
//! it finds the complete new state at once; this is the one to use. [`BySlot`] has one slot for each object: many
//! changes of an object cost one turn, which carries them all. Neither waits and neither has a lock: the task that owns
//! the queue is the only one to touch it, which also keeps the changes of an object in order.
//! [`crate::reflector::Reflector::telling`] gives that task what to put into either.
//!
//! The rules are client-go's, `tools/cache/the_real_fifo.go` and `tools/cache/delta_fifo.go`.

mod by_slot;
mod in_order;

use std::fmt;
use std::sync::Arc;

use setpoint_api::{Key, Stored};

pub use by_slot::{BySlot, Turn};
pub use in_order::{InOrder, Item};

/// One thing that happened to one object.
#[derive(Debug, Clone)]
pub enum Delta {
    /// It came.
    Added(Arc<Stored>),
    /// It changed.
    Updated(Arc<Stored>),
    /// It went.
    Deleted(Gone),
    /// It was in a list. It may be new, changed or the same as before.
    Replaced(Arc<Stored>),
    /// Nothing happened: it is told again because the time for that has come.
    Sync(Arc<Stored>),
}

/// How the end of an object became known.
#[derive(Debug, Clone)]
pub enum Gone {
    /// Its deletion was watched; this is its last state.
    Seen(Arc<Stored>),
    /// It was missing in a list. What it was at the end is not known, only what was last heard of it, if anything.
    Unseen {
        /// Who was missing.
        key: Key,
        /// What was last heard of it.
        last: Option<Arc<Stored>>,
    },
}

/// Changes an object before it is queued: drops what no handler reads, say. It may be given what it once made.
pub type Transform = Arc<dyn Fn(Arc<Stored>) -> Arc<Stored> + Send + Sync>;

/// How far the first fill of a queue has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Fill {
    /// Nothing has come yet.
    #[default]
    Waiting,
    /// The first list has come; so many of its items are still to be taken.
    Taking(usize),
    /// All of the first list was taken, or changes came before any list.
    Taken,
}

// === impl Delta ===

impl Delta {
    /// Whom it happened to.
    pub fn key(&self) -> &Key {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Replaced(object) | Self::Sync(object) => {
                object.key()
            }
            Self::Deleted(gone) => gone.key(),
        }
    }

    /// The object, if anything is known of it.
    pub fn object(&self) -> Option<&Arc<Stored>> {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Replaced(object) | Self::Sync(object) => {
                Some(object)
            }
            Self::Deleted(gone) => gone.last(),
        }
    }

    /// Whether it tells of an end.
    pub fn is_deletion(&self) -> bool {
        matches!(self, Self::Deleted(_))
    }
}

/// `Replaced a/x@5`, and a question mark behind the end nobody saw.
impl fmt::Display for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added(object) => write!(f, "Added {object:?}"),
            Self::Updated(object) => write!(f, "Updated {object:?}"),
            Self::Replaced(object) => write!(f, "Replaced {object:?}"),
            Self::Sync(object) => write!(f, "Sync {object:?}"),
            Self::Deleted(Gone::Seen(last)) => write!(f, "Deleted {last:?}"),
            Self::Deleted(Gone::Unseen { last: Some(last), .. }) => write!(f, "Deleted {last:?}?"),
            Self::Deleted(Gone::Unseen { key, last: None }) => write!(f, "Deleted {key}?"),
        }
    }
}

// === impl Gone ===

impl Gone {
    /// Who is gone.
    pub fn key(&self) -> &Key {
        match self {
            Self::Seen(last) => last.key(),
            Self::Unseen { key, .. } => key,
        }
    }

    /// What was last known of the object. It may be older than its end.
    pub fn last(&self) -> Option<&Arc<Stored>> {
        match self {
            Self::Seen(last) => Some(last),
            Self::Unseen { last, .. } => last.as_ref(),
        }
    }
}

// === impl Fill ===

impl Fill {
    /// A change has come; before the first list it means that there will be nothing to wait for.
    fn change(&mut self) {
        if *self == Self::Waiting {
            *self = Self::Taken;
        }
    }

    /// A list of so many has come.
    fn list(&mut self, items: usize) {
        if *self == Self::Waiting {
            *self = if items == 0 {
                Self::Taken
            } else {
                Self::Taking(items)
            };
        }
    }

    /// So many were taken.
    fn take(&mut self, items: usize) {
        if let Self::Taking(left) = *self {
            *self = match left.saturating_sub(items) {
                0 => Self::Taken,
                left => Self::Taking(left),
            };
        }
    }
}

#[cfg(test)]
mod tests;
