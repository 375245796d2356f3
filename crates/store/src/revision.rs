//! The number that orders every change of a store.

use std::fmt;

/// Number of one commit (etcd: revision). All changes of one transaction share a revision, the first commit of a
/// store gets 1, and a revision is never assigned twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// The state before the first commit: an empty map.
    pub const ZERO: Revision = Revision(0);

    /// The revision with this number.
    pub const fn new(number: u64) -> Revision {
        Revision(number)
    }

    /// The number itself.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The revision that directly follows.
    pub const fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}
