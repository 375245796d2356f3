//! Documents that follow from what is served: made when first asked for, and again once something else is served.

use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_kinds::Kinds;

use crate::aggregate::Others;

/// A document and what it was made of.
#[derive(Debug)]
pub(crate) struct Made<T> {
    last: Mutex<Option<(Served, Arc<T>)>>,
}

/// What is served at one time: by this server, and by others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Served {
    pub kinds: Arc<Kinds>,
    pub others: Arc<Others>,
}

impl<T> Made<T> {
    /// The document of what is served. Whoever asks while it is being made waits: one is enough.
    pub(crate) fn of(&self, served: &Served, make: impl FnOnce(&Served) -> T) -> Arc<T> {
        let mut last = self.last.lock();
        if let Some((of, made)) = &*last
            && of.is(served)
        {
            return made.clone();
        }
        let made = Arc::new(make(served));
        *last = Some((served.clone(), made.clone()));
        made
    }
}

impl Served {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.kinds, &other.kinds) && Arc::ptr_eq(&self.others, &other.others)
    }
}

impl<T> Default for Made<T> {
    fn default() -> Self {
        Self {
            last: Mutex::new(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_made_once_for_each_table() {
        let (first, second) = (Served::default(), Served::default());
        let made = Made::default();
        let old = made.of(&first, |_| 1);
        assert_eq!(
            (*old, *made.of(&first, |_| 2), *made.of(&second, |_| 3)),
            (1, 1, 3)
        );
    }
}
