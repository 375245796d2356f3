//! Changes of objects: [`Change`] as the cache receives them, [`Event`] as a watch delivers them.

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
    /// `last` is the state before the deletion, with the resource version of the deletion.
    Deleted {
        old: Arc<Stored>,
        last: Arc<Stored>,
    },
}

/// One event of a watch.
#[derive(Debug, Clone)]
pub enum Event {
    Added(Arc<Stored>),
    Modified(Arc<Stored>),
    Deleted(Arc<Stored>),
    /// All events up to this resource version have been sent.
    Bookmark(Bookmark),
    /// The watch ends after this.
    Error(Box<Status>),
}

/// A bookmark event: how far the watch has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bookmark {
    pub resource_version: ResourceVersion,
    /// Whether this bookmark ends the initial events that the watcher requested (`k8s.io/initial-events-end`).
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

    /// The object before the change; `None` if it was added.
    pub fn old(&self) -> Option<&Arc<Stored>> {
        match self {
            Self::Added(_) => None,
            Self::Modified { old, .. } | Self::Deleted { old, .. } => Some(old),
        }
    }

    /// Whether the change is a deletion.
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
