//! [`Violation`]: what a history shows that a linearizable store never does.

use std::fmt;

/// The type of a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ViolationKind {
    /// An acknowledged write is not there, and was never seen.
    LostWrite,
    /// A response is older than what was known before its request.
    StaleRead,
    /// A value was read that no write, or only a failed one, wrote.
    DirtyRead,
    /// A create succeeded although the object existed.
    DuplicateCreate,
    /// A write succeeded although the object was not at the revision that it expected.
    LostUpdate,
    /// A write was executed twice, or one revision has two contents.
    Contradiction,
    /// A revision is older than what was known before its write.
    RevisionOrder,
    /// A list is not the state at its revision.
    TornList,
    /// A watch did not deliver an event.
    WatchGap,
    /// A watch delivered an event again, or one from before its start.
    WatchRepeat,
    /// An event does not follow from those before it.
    WatchEvent,
    /// No order of the operations on a key explains their outcomes.
    NotLinearizable,
}

/// A violation, with the operations that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) kind: ViolationKind,
    pub(crate) text: String,
}

impl Violation {
    pub(crate) fn new(kind: ViolationKind, text: String) -> Self {
        Self { kind, text }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ViolationKind::LostWrite => "lost write",
            ViolationKind::StaleRead => "stale read",
            ViolationKind::DirtyRead => "dirty read",
            ViolationKind::DuplicateCreate => "duplicate create",
            ViolationKind::LostUpdate => "lost update",
            ViolationKind::Contradiction => "contradiction",
            ViolationKind::RevisionOrder => "revision order",
            ViolationKind::TornList => "torn list",
            ViolationKind::WatchGap => "watch gap",
            ViolationKind::WatchRepeat => "watch repeat",
            ViolationKind::WatchEvent => "watch event",
            ViolationKind::NotLinearizable => "not linearizable",
        };
        write!(f, "{kind}: {}", self.text)
    }
}
