//! A reflector that also feeds a delta queue: [`Reflector::telling`].

use std::sync::Arc;

use setpoint_api::{Change, ResourceVersion, Stored};
use tokio::sync::mpsc;

use super::Reflector;
use crate::delta::{Delta, Gone, Item};

/// Tells somebody what the cache has just been given, if anybody wants to know.
#[derive(Debug, Default)]
pub(super) struct Teller {
    items: Option<mpsc::Sender<Item>>,
}

impl Reflector {
    /// The same reflector, which also says what happened in the order in which it did: what a delta queue hears. Each list
    /// is one item. The cache has it already, and no repetition is told.
    ///
    /// One who does not take the items holds up this reflector and its watch, but nobody else; what the server has forgotten
    /// by the time it goes on comes with another list. One who is gone holds up nobody.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let cluster = setpoint_testkit::Cluster::start().await;
    /// # let (client, clock) = (cluster.client("me"), std::sync::Arc::new(cluster.clock.clone()));
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use setpoint_runtime::delta::{Delta, InOrder};
    /// use setpoint_runtime::reflector::{Reflector, Scope};
    /// use setpoint_runtime::{Cache, Object};
    /// use std::sync::Arc;
    /// use tokio_util::sync::CancellationToken;
    ///
    /// let cache = || Arc::new(Cache::new(Namespace::resource().group_resource()));
    /// let (sender, mut items) = tokio::sync::mpsc::channel(100);
    /// let reflector = Reflector::new(&client, Namespace::resource(), Scope::default(), cache(), clock);
    /// let (handled, mut queue) = (cache(), InOrder::new());
    /// tokio::select! {
    ///     () = reflector.telling(sender).run(CancellationToken::new()) => {}
    ///     Some(item) = items.recv() => queue.hear(item),
    /// }
    /// let told = queue.drain_into(&handled);
    /// assert!(told.iter().any(|delta| matches!(delta, Delta::Added(new) if new.key().name() == "default")));
    /// # }
    /// ```
    #[must_use]
    pub fn telling(self, items: mpsc::Sender<Item>) -> Self {
        let teller = Teller { items: Some(items) };
        Self { teller, ..self }
    }
}

// === impl Teller ===

impl Teller {
    /// A whole list at a revision.
    pub(super) fn list(&self, objects: &[Arc<Stored>], at: ResourceVersion) -> Vec<Item> {
        match self.items {
            Some(_) => vec![Item::ReplacedAll(objects.to_vec(), at)],
            None => Vec::new(),
        }
    }

    /// Changes one by one, and how far they lead where nothing else says so.
    pub(super) fn items(
        &self,
        changes: &[Change],
        before: ResourceVersion,
        at: ResourceVersion,
    ) -> Vec<Item> {
        if self.items.is_none() {
            return Vec::new();
        }
        let newest = changes
            .iter()
            .map(Change::resource_version)
            .fold(before, Ord::max);
        let bookmark = (at > newest).then_some(Item::Bookmark(at));
        let changes = changes.iter().map(|change| Item::One(delta(change)));
        changes.chain(bookmark).collect()
    }

    /// Waits until all of it is taken.
    pub(super) async fn tell(&self, items: Vec<Item>) {
        let Some(taker) = &self.items else { return };
        for item in items {
            // One who is gone need not be told.
            let _ = taker.send(item).await;
        }
    }
}

fn delta(change: &Change) -> Delta {
    match change {
        Change::Added(new) => Delta::Added(new.clone()),
        Change::Modified { new, .. } => Delta::Updated(new.clone()),
        Change::Deleted { last, .. } => Delta::Deleted(Gone::Seen(last.clone())),
    }
}
