//! What clients did and saw: operations with the order of their starts and ends, and the events of watches.

use std::collections::BTreeMap;
use std::fmt;

/// The number of a start or an end in the order of all of them. A response that one client had before another client
/// sent its request has the lower number.
pub(crate) type Tick = u64;

/// The end of an operation whose outcome is not known: it may take effect at any later time.
pub(crate) const NEVER: Tick = Tick::MAX;

/// An object as it was read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) revision: u64,
    pub(crate) uid: String,
    /// Its content. Each write of a history has its own.
    pub(crate) value: String,
}

/// What a client requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Create {
        value: String,
    },
    /// An update or a patch, of the object at this revision if one is expected.
    Update {
        value: String,
        expected: Option<u64>,
    },
    Delete {
        expected: Option<u64>,
    },
    Get,
    /// A list of all objects, in one or several pages.
    List,
}

/// What the client knows of the effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A create or an update was acknowledged.
    Written(Version),
    /// A delete of the object with this uid was acknowledged.
    Deleted { uid: String },
    /// A get returned the object.
    Read(Version),
    /// The object does not exist: 404.
    Absent,
    /// A create found the object: 409 AlreadyExists.
    Exists,
    /// The object is not at the expected revision: 409 Conflict. It may be gone.
    Conflict,
    /// A list of one revision.
    Listed {
        revision: u64,
        items: BTreeMap<String, Version>,
    },
    /// The request was not executed, for a reason that does not depend on the object.
    Rejected,
    /// A write may or may not have been executed, or will be; a read has no result.
    Unknown,
}

/// One request of one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) client: usize,
    pub(crate) server: usize,
    /// The object; empty for a list.
    pub(crate) key: String,
    pub(crate) action: Action,
    pub(crate) outcome: Outcome,
    pub(crate) start: Tick,
    /// [`NEVER`] if the outcome is not known.
    pub(crate) end: Tick,
}

/// The type of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
    /// All events up to this revision were delivered.
    Bookmark,
}

/// An event, with the object as of its revision; of a deleted object its last content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) event_type: EventType,
    /// Empty for a bookmark.
    pub(crate) key: String,
    pub(crate) version: Version,
    pub(crate) received: Tick,
}

/// One connection of a watcher: the events after a revision, until the connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Watch {
    pub(crate) watcher: usize,
    pub(crate) server: usize,
    /// The resourceVersion of the request.
    pub(crate) start: u64,
    pub(crate) events: Vec<Event>,
}

/// The operations on keys that did not exist before.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// A revision at which none of the keys existed.
    pub(crate) start: u64,
    pub(crate) operations: Vec<Operation>,
    pub(crate) watches: Vec<Watch>,
}

impl Operation {
    /// The value that this operation writes.
    pub(crate) fn value(&self) -> Option<&str> {
        match &self.action {
            Action::Create { value } | Action::Update { value, .. } => Some(value),
            Action::Delete { .. } | Action::Get | Action::List => None,
        }
    }

    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.action, Action::Get | Action::List)
    }
}

impl Watch {
    /// The revision up to which the watch promises to have delivered everything.
    pub(crate) fn reached(&self) -> u64 {
        let revisions = self.events.iter().map(|event| event.version.revision);
        revisions.fold(self.start, u64::max)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at revision {}", self.value, self.revision)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.action {
            Action::Create { value } => write!(f, "create of {key} with {value:?}")?,
            Action::Update {
                value,
                expected: None,
            } => write!(f, "update of {key} to {value:?}")?,
            Action::Update {
                value,
                expected: Some(expected),
            } => write!(f, "update of {key} at {expected} to {value:?}")?,
            Action::Delete { expected: None } => write!(f, "delete of {key}")?,
            Action::Delete {
                expected: Some(expected),
            } => write!(f, "delete of {key} at {expected}")?,
            Action::Get => write!(f, "get of {key}")?,
            Action::List => f.write_str("full list")?,
        }
        write!(
            f,
            " by client {} at server {} [{}-",
            self.client, self.server, self.start
        )?;
        match self.end {
            NEVER => f.write_str("]: ")?,
            end => write!(f, "{end}]: ")?,
        }
        match &self.outcome {
            Outcome::Written(version) => write!(f, "revision {}", version.revision),
            Outcome::Deleted { uid } => write!(f, "deleted {uid}"),
            Outcome::Read(version) => version.fmt(f),
            Outcome::Absent => f.write_str("not found"),
            Outcome::Exists => f.write_str("already exists"),
            Outcome::Conflict => f.write_str("conflict"),
            Outcome::Listed { revision, items } => {
                write!(f, "{} objects at revision {revision}", items.len())
            }
            Outcome::Rejected => f.write_str("rejected"),
            Outcome::Unknown => f.write_str("no response"),
        }
    }
}

impl fmt::Display for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "watch {} at server {} from {} to {}",
            self.watcher,
            self.server,
            self.start,
            self.reached()
        )
    }
}

/// One line for each operation, event and end of a watch.
impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "start at revision {}", self.start)?;
        for operation in &self.operations {
            writeln!(f, "{operation}")?;
            if let Outcome::Listed { items, .. } = &operation.outcome {
                for (key, version) in items {
                    writeln!(f, "    {key}: {version}")?;
                }
            }
        }
        for watch in &self.watches {
            writeln!(f, "{watch}")?;
            for event in &watch.events {
                let (event_type, key, version) = (event.event_type, &event.key, &event.version);
                writeln!(f, "    [{}] {event_type:?} {key}: {version}", event.received)?;
            }
        }
        Ok(())
    }
}
