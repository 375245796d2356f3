//! What is published: the newest map, its revision, and the past that is still readable.

use crate::{Error, Revision, history::History, index::Index};

/// One published state. Readers take it whole, so its parts always agree.
///
/// `history` holds every change above `compacted`, up to `revision`, which is the state of `index`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub(crate) revision: Revision,
    pub(crate) compacted: Revision,
    pub(crate) index: Index,
    pub(crate) history: History,
}

impl Head {
    /// Checks that everything after `asked` is still known, and that `asked` has happened.
    pub(crate) fn check_readable(&self, asked: Revision) -> Result<(), Error> {
        if asked < self.compacted {
            let compacted = self.compacted;
            return Err(Error::Compacted { asked, compacted });
        }
        if asked > self.revision {
            let current = self.revision;
            return Err(Error::Future { asked, current });
        }
        Ok(())
    }

    /// Forgets what lies below `revision`. Going back is not possible.
    pub(crate) fn compact(&mut self, revision: Revision) {
        if revision > self.compacted {
            self.compacted = revision;
            self.history.trim(revision);
        }
    }
}
