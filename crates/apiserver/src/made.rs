//! Documents that follow from the table of kinds: made when first asked for, and again once there is another table.

use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_kinds::Kinds;

/// A document and the table it was made of.
#[derive(Debug)]
pub(crate) struct Made<T> {
    last: Mutex<Option<(Arc<Kinds>, Arc<T>)>>,
}

impl<T> Made<T> {
    /// The document of a table. Whoever asks while it is being made waits: one is enough.
    pub(crate) fn of(&self, kinds: &Arc<Kinds>, make: impl FnOnce(&Kinds) -> T) -> Arc<T> {
        let mut last = self.last.lock();
        if let Some((of, made)) = &*last
            && Arc::ptr_eq(of, kinds)
        {
            return made.clone();
        }
        let made = Arc::new(make(kinds));
        *last = Some((kinds.clone(), made.clone()));
        made
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
        let (first, second) = (Arc::new(Kinds::default()), Arc::new(Kinds::default()));
        let made = Made::default();
        let old = made.of(&first, |_| 1);
        assert_eq!(
            (*old, *made.of(&first, |_| 2), *made.of(&second, |_| 3)),
            (1, 1, 3)
        );
    }
}
