//! What happened to an object: [`Change`] as the cache sees it, [`Event`] as a watcher is told.

use std::sync::Arc;

use crate::key::Key;
use crate::object::Stored;
use crate::status::Status;
use crate::version::ResourceVersion;

/// One committed change of one object, with the object before and after.
#[derive(Debug, Clone)]
pub enum Change {
    Added(Arc<Stored>),
    Modified {
        old: Arc<Stored>,
        new: Arc<Stored>,
    },
    /// `last` is the state before, carrying the revision of the deletion.
    Deleted {
        old: Arc<Stored>,
        last: Arc<Stored>,
    },
}

/// What a watcher is told.
#[derive(Debug, Clone)]
pub enum Event {
    Added(Arc<Stored>),
    Modified(Arc<Stored>),
    Deleted(Arc<Stored>),
    /// Nothing happened, up to this revision.
    Bookmark(Bookmark),
    /// The watch ends after this.
    Error(Box<Status>),
}

/// A mark of progress in a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bookmark {
    pub resource_version: ResourceVersion,
    /// Whether this closes the initial state that the watcher asked for.
    pub initial_events_end: bool,
}

// === impl Change ===

impl Change {
    /// The object as it is after the change; for a deletion, its last state.
    pub fn object(&self) -> &Arc<Stored> {
        match self {
            Self::Added(new) | Self::Modified { new, .. } => new,
            Self::Deleted { last, .. } => last,
        }
    }

    /// The object as it was before, if there was one.
    pub fn old(&self) -> Option<&Arc<Stored>> {
        match self {
            Self::Added(_) => None,
            Self::Modified { old, .. } | Self::Deleted { old, .. } => Some(old),
        }
    }

    /// Whether the object is gone.
    pub fn is_deletion(&self) -> bool {
        matches!(self, Self::Deleted { .. })
    }

    pub fn key(&self) -> &Key {
        self.object().key()
    }

    /// The revision of the commit that made the change.
    pub fn resource_version(&self) -> ResourceVersion {
        self.object().resource_version()
    }
}
