//! [`Memo`]: what the one who puts a value knows of it beyond its bytes.

use std::{any::Any, fmt, sync::Arc};

/// Something that goes with a value as long as it is in memory. The store never looks at it and never writes it: a
/// record that was read back from disk has none.
#[derive(Clone, Default)]
pub struct Memo(Option<Arc<dyn Any + Send + Sync>>);

impl Memo {
    /// A memo of something.
    pub fn new(of: impl Any + Send + Sync) -> Memo {
        Memo(Some(Arc::new(of)))
    }

    /// What it is of, if it is of this type.
    pub fn find<T: 'static>(&self) -> Option<&T> {
        self.0.as_ref()?.downcast_ref()
    }
}

/// A memo is no part of the value, so that values are equal whatever their memos.
impl PartialEq for Memo {
    fn eq(&self, _: &Memo) -> bool {
        true
    }
}

impl Eq for Memo {}

impl fmt::Debug for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Memo" } else { "None" })
    }
}
