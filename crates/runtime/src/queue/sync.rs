//! What the queue is synchronised by. A model checker has another file in the place of this one.

pub(super) use parking_lot::Mutex;
pub(super) use tokio::sync::Notify;
