//! The sequential model of one key: an object with a revision, or none.

use super::history::{Action, Operation, Outcome};

/// The state of a key between two operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) current: Option<Current>,
    /// The newest revision of the key that is known; it survives a deletion.
    newest: u64,
}

/// The object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Current {
    /// The operation that wrote it.
    writer: usize,
    /// `None` if nothing shows the revision: the object was written without a response and never seen.
    pub(crate) revision: Option<u64>,
}

/// What an operation does to a key, with the revision of its write if anything shows it.
#[derive(Debug, Clone)]
pub(crate) struct Transition {
    /// The operation in the history.
    pub(crate) operation: usize,
    pub(crate) effect: Effect,
}

/// The effect of an operation, and the condition under which its outcome is possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Create {
        revision: Option<u64>,
    },
    Update {
        revision: Option<u64>,
        expected: Option<u64>,
    },
    Delete {
        expected: Option<u64>,
    },
    /// The object was at this revision.
    Present {
        revision: u64,
    },
    Exists,
    Absent,
    /// The object was not at the expected revision, or it was gone.
    Conflict {
        expected: Option<u64>,
    },
}

impl Effect {
    /// The effect of an operation on its own key; `None` if its outcome shows nothing. `revision` is that of its value.
    pub(crate) fn of(operation: &Operation, revision: Option<u64>) -> Option<Self> {
        Some(match &operation.outcome {
            Outcome::Written(_) | Outcome::Unknown | Outcome::Deleted { .. } => match operation.action {
                Action::Create { .. } => Self::Create { revision },
                Action::Update { expected, .. } => Self::Update { revision, expected },
                Action::Delete { expected } => Self::Delete { expected },
                Action::Get | Action::List => return None,
            },
            Outcome::Read(version) => Self::Present {
                revision: version.revision,
            },
            Outcome::Absent => Self::Absent,
            Outcome::Exists => Self::Exists,
            Outcome::Conflict => Self::Conflict {
                expected: operation.expected(),
            },
            Outcome::Listed { .. } | Outcome::Rejected => return None,
        })
    }

    /// The revision that it writes.
    pub(crate) fn revision(self) -> Option<u64> {
        match self {
            Self::Create { revision } | Self::Update { revision, .. } => revision,
            _ => None,
        }
    }
}

impl State {
    /// No object has existed yet.
    pub(crate) fn empty() -> Self {
        Self {
            current: None,
            newest: 0,
        }
    }

    /// The state after a transition; `None` if its outcome is not possible in this state. `writes` are the known revisions
    /// of all writes, ascending: none may be left out.
    pub(crate) fn apply(self, transition: &Transition, writes: &[u64]) -> Option<Self> {
        let matches = |expected: Option<u64>| {
            self.current.is_some_and(|current| match expected {
                Some(expected) => current.revision == Some(expected),
                None => true,
            })
        };
        match transition.effect {
            Effect::Create { revision } if self.current.is_none() => {
                self.write(transition.operation, revision, writes)
            }
            Effect::Update { revision, expected } if matches(expected) => {
                self.write(transition.operation, revision, writes)
            }
            Effect::Delete { expected } if matches(expected) => Some(Self {
                current: None,
                ..self
            }),
            Effect::Present { revision } if matches(Some(revision)) => Some(self),
            Effect::Exists if self.current.is_some() => Some(self),
            Effect::Absent if self.current.is_none() => Some(self),
            Effect::Conflict { expected } => (expected.is_none() || !matches(expected)).then_some(self),
            _ => None,
        }
    }

    /// Known revisions are written in their order.
    fn write(self, writer: usize, revision: Option<u64>, writes: &[u64]) -> Option<Self> {
        let next = writes.get(writes.partition_point(|known| *known <= self.newest));
        if revision.is_some() && revision != next.copied() {
            return None;
        }
        Some(Self {
            current: Some(Current { writer, revision }),
            newest: revision.unwrap_or(self.newest),
        })
    }

    /// The operation that wrote the object.
    pub(crate) fn writer(&self) -> Option<usize> {
        self.current.map(|current| current.writer)
    }
}
