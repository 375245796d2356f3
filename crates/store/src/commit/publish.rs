//! Publish, the third stage: makes the head of a durable batch visible to every reader and wakes the watchers.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{head::Head, shared::Shared};

/// Wakes the watchers of a store. The value of the channel is whether the store is closed.
#[derive(Debug)]
pub(crate) struct ChangeNotifier(watch::Sender<bool>);

/// A watcher's end of the [`ChangeNotifier`].
pub(crate) type ChangeReceiver = watch::Receiver<bool>;

/// Makes `head` the newest state, wakes the watchers and returns the state it replaces.
pub(crate) fn publish(shared: &Shared, head: Head) -> Arc<Head> {
    let compacted = head.compacted;
    let replaced = shared.replace_head(head);
    shared.changes.notify();
    // A batch may have compacted the history to stay within its limit of bytes.
    if compacted > replaced.compacted {
        shared.drop_rewound_below(compacted);
    }
    replaced
}

impl ChangeNotifier {
    pub(crate) fn new() -> ChangeNotifier {
        ChangeNotifier(watch::Sender::new(false))
    }

    pub(crate) fn subscribe(&self) -> ChangeReceiver {
        self.0.subscribe()
    }

    fn notify(&self) {
        self.0.send_modify(|_| {});
    }

    /// Ends the watchers, once they have read everything that was published.
    pub(crate) fn close(&self) {
        self.0.send_modify(|closed| *closed = true);
    }
}
