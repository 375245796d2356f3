//! [`Attachment`]: in-memory data that travels with a record, such as the decoded form of its value.

use std::{any::Any, fmt, sync::Arc};

/// Data that the writer attaches to a value while it is in memory. The store neither reads nor persists it: a record
/// that was read back from disk has none.
#[derive(Clone, Default)]
pub struct Attachment(Option<Arc<dyn Any + Send + Sync>>);

impl Attachment {
    /// An attachment that holds `data`.
    pub fn new(data: impl Any + Send + Sync) -> Attachment {
        Attachment(Some(Arc::new(data)))
    }

    /// The attached data, if it has this type.
    pub fn find<T: 'static>(&self) -> Option<&T> {
        self.0.as_ref()?.downcast_ref()
    }
}

/// Always equal: an attachment is not part of the value, so records compare by their bytes alone.
impl PartialEq for Attachment {
    fn eq(&self, _: &Attachment) -> bool {
        true
    }
}

impl Eq for Attachment {}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Attachment" } else { "None" })
    }
}
