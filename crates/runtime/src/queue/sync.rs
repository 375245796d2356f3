//! The synchronisation primitives of the queue. A model checker substitutes its own for this file.

pub(super) use parking_lot::Mutex;
pub(super) use tokio::sync::Notify;
