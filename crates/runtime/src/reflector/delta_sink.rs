//! A reflector that also feeds a delta queue: [`Reflector::with_delta_sink`].

use std::sync::Arc;

use setpoint_api::{Change, ResourceVersion, Stored};
use tokio::sync::mpsc;

use super::Reflector;
use crate::delta::{Deletion, Delta, FifoItem};

/// Sends the changes that were applied to the cache to a channel, if there is one.
#[derive(Debug, Default)]
pub(super) struct DeltaSink {
    items: Option<mpsc::Sender<FifoItem>>,
}

impl Reflector {
    /// The same reflector, which also sends each change to a channel, in order: the input of a delta queue. Each list is one
    /// item. The cache already has the change when it is sent, and replays are not sent.
    ///
    /// A full channel blocks this reflector and its watch, but no other; if the watch has expired when the reflector
    /// continues, it lists again. A closed channel is ignored.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let cluster = setpoint_testkit::Cluster::start().await;
    /// # let (client, clock) = (cluster.client("me"), std::sync::Arc::new(cluster.clock.clone()));
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use setpoint_runtime::delta::{Delta, RealFifo};
    /// use setpoint_runtime::reflector::{Reflector, ReflectorOptions};
    /// use setpoint_runtime::{Cache, Object};
    /// use std::sync::Arc;
    /// use tokio_util::sync::CancellationToken;
    ///
    /// let cache = || Arc::new(Cache::new(Namespace::resource().group_resource()));
    /// let (sender, mut items) = tokio::sync::mpsc::channel(100);
    /// let options = ReflectorOptions::default();
    /// let reflector = Reflector::new(&client, Namespace::resource(), options, cache(), clock);
    /// let (handled, mut queue) = (cache(), RealFifo::new());
    /// tokio::select! {
    ///     () = reflector.with_delta_sink(sender).run(CancellationToken::new()) => {}
    ///     Some(item) = items.recv() => queue.enqueue(item),
    /// }
    /// let deltas = queue.drain_into(&handled);
    /// assert!(deltas.iter().any(|delta| matches!(delta, Delta::Added(new) if new.key().name() == "default")));
    /// # }
    /// ```
    #[must_use]
    pub fn with_delta_sink(self, items: mpsc::Sender<FifoItem>) -> Self {
        let delta_sink = DeltaSink { items: Some(items) };
        Self { delta_sink, ..self }
    }
}

// === impl Teller ===

impl DeltaSink {
    /// The item for a list at a revision.
    pub(super) fn list(&self, objects: &[Arc<Stored>], at: ResourceVersion) -> Vec<FifoItem> {
        match self.items {
            Some(_) => vec![FifoItem::ReplacedAll(objects.to_vec(), at)],
            None => Vec::new(),
        }
    }

    /// One item for each change, and a bookmark if the revision reached is newer than all of them.
    pub(super) fn items(
        &self,
        changes: &[Change],
        before: ResourceVersion,
        at: ResourceVersion,
    ) -> Vec<FifoItem> {
        if self.items.is_none() {
            return Vec::new();
        }
        let newest = changes
            .iter()
            .map(Change::resource_version)
            .fold(before, Ord::max);
        let bookmark = (at > newest).then_some(FifoItem::Bookmark(at));
        let changes = changes.iter().map(|change| FifoItem::Delta(delta(change)));
        changes.chain(bookmark).collect()
    }

    /// Waits until the channel has taken all items.
    pub(super) async fn send(&self, items: Vec<FifoItem>) {
        let Some(sender) = &self.items else { return };
        for item in items {
            // A closed channel is ignored.
            let _ = sender.send(item).await;
        }
    }
}

fn delta(change: &Change) -> Delta {
    match change {
        Change::Added(new) => Delta::Added(new.clone()),
        Change::Modified { new, .. } => Delta::Updated(new.clone()),
        Change::Deleted { last, .. } => Delta::Deleted(Deletion::Observed(last.clone())),
    }
}
