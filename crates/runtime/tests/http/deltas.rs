//! Both delta queues, fed by a reflector over HTTPS: the events of a real watch, a cut, and the list after it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Change, ResourceVersion};
use setpoint_client::Object;
use setpoint_runtime::Cache;
use setpoint_runtime::delta::{Delta, DeltaFifo, Deltas, FifoItem, RealFifo};
use setpoint_runtime::reflector::{Reflector, ReflectorOptions};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::remote::RemoteCluster;
use crate::{clock, in_time};

/// The deltas of a reflector of the ConfigMaps in the default namespace, until it is dropped.
struct DeltaStream {
    items: mpsc::Receiver<FifoItem>,
    _task: JoinSet<()>,
}

impl DeltaStream {
    fn over(remote: &RemoteCluster) -> Self {
        let options = ReflectorOptions {
            namespace: "default".to_owned(),
            ..ReflectorOptions::default()
        };
        let (sender, items) = mpsc::channel(100);
        let reflector = Reflector::new(&remote.client, ConfigMap::resource(), options, cache(), clock());
        let mut task = JoinSet::new();
        task.spawn(reflector.with_delta_sink(sender).run(CancellationToken::new()));
        Self { items, _task: task }
    }

    /// All items up to this revision but bookmarks, which come at any time.
    async fn until(&mut self, version: ResourceVersion) -> Vec<FifoItem> {
        let mut items = Vec::new();
        loop {
            let item = in_time(self.items.recv()).await.unwrap();
            let reached = reached(&item);
            items.extend(Some(item).filter(|item| !matches!(item, FifoItem::Bookmark(_))));
            if reached >= version {
                return items;
            }
        }
    }
}

impl RemoteCluster {
    async fn delete(&self, name: &str) -> ResourceVersion {
        let maps = self.cluster.client("test").namespaced::<ConfigMap>("default");
        maps.delete(name, DeleteOptions::default()).await.unwrap();
        self.cluster.revision()
    }

    async fn created(&self, name: &str) -> ResourceVersion {
        self.create(name).await;
        self.cluster.revision()
    }

    /// Compacts the history: a watch from an older revision gets an Expired error.
    async fn forget(&self) {
        let (cache, newest) = (self.cluster.cache::<ConfigMap>(), self.cluster.revision());
        in_time(cache.reached(newest)).await;
        cache.trim(newest);
    }
}

fn cache() -> Arc<Cache> {
    Arc::new(Cache::new(ConfigMap::resource().group_resource()))
}

fn reached(item: &FifoItem) -> ResourceVersion {
    match item {
        FifoItem::Delta(delta) => delta.object().unwrap().resource_version(),
        FifoItem::ReplacedAll(_, version) | FifoItem::Bookmark(version) => *version,
        FifoItem::SyncAll => ResourceVersion::ZERO,
    }
}

fn shown(item: &FifoItem) -> String {
    match item {
        FifoItem::Delta(delta) => delta.to_string(),
        FifoItem::ReplacedAll(objects, _) => format!("All {objects:?}"),
        FifoItem::SyncAll | FifoItem::Bookmark(_) => format!("{item:?}"),
    }
}

#[track_caller]
fn check<T>(items: &[T], shown: impl Fn(&T) -> String, expected: &[String]) {
    let items: Vec<_> = items.iter().map(shown).collect();
    assert_eq!(items, expected);
}

/// IN3, IN4, IN2: each event of a real watch is one delta of its type, in order, and the list after a cut that
/// outlasted the server's history is one item, which gives the missed deletions.
#[tokio::test]
async fn in3_a_real_fifo_over_https_has_every_change_by_type_in_order() {
    let remote = RemoteCluster::open().await;
    let (x, y) = (remote.created("x").await, remote.created("y").await);
    let mut deltas = DeltaStream::over(&remote);
    let (mut queue, cache) = (RealFifo::new(), cache());
    let items = deltas.until(y).await;
    check(&items, shown, &[format!("All [default/x@{x}, default/y@{y}]")]);
    items.into_iter().for_each(|item| queue.enqueue(item));
    assert!(!queue.has_synced());
    let delivered = queue.drain_into(&cache);
    check(
        &delivered,
        Delta::to_string,
        &[format!("Added default/x@{x}"), format!("Added default/y@{y}")],
    );
    assert!(queue.has_synced());

    let (x1, x2) = (remote.update("x", "1").await, remote.update("x", "2").await);
    let (z, y1) = (remote.created("z").await, remote.delete("y").await);
    let expected = [
        format!("Updated default/x@{x1}"),
        format!("Updated default/x@{x2}"),
        format!("Added default/z@{z}"),
        format!("Deleted default/y@{y1}"),
    ];
    let items = deltas.until(y1).await;
    check(&items, shown, &expected);
    items.into_iter().for_each(|item| queue.enqueue(item));
    check(&queue.drain_into(&cache), Delta::to_string, &expected);

    remote.watches.cut::<ConfigMap>();
    let (x3, _, w) = (
        remote.update("x", "3").await,
        remote.delete("z").await,
        remote.created("w").await,
    );
    remote.forget().await;
    remote.watches.mend::<ConfigMap>();
    let items = deltas.until(w).await;
    check(&items, shown, &[format!("All [default/w@{w}, default/x@{x3}]")]);
    items.into_iter().for_each(|item| queue.enqueue(item));
    queue.resync();
    let expected = [
        format!("Deleted default/z@{z}?"),
        format!("Added default/w@{w}"),
        format!("Updated default/x@{x3}"),
        format!("Sync default/w@{w}"),
        format!("Sync default/x@{x3}"),
    ];
    check(&queue.drain_into(&cache), Delta::to_string, &expected);
    // The initial watch, one that got an Expired error, and the one after it.
    assert_eq!(remote.link.reads(), ["remote watch configmaps"; 3]);
}

/// Handles deltas as their consumer does: the newest object is the known one.
fn handle(turn: &Deltas, known: &Cache) {
    let (newest, old) = (turn.deltas.last().unwrap(), known.find(&turn.key));
    let change = match (newest, old) {
        (Delta::Deleted(deletion), Some(old)) => {
            let last = deletion.last().unwrap_or(&old).clone();
            Change::Deleted { old, last }
        }
        (Delta::Deleted(_), None) => return,
        (delta, Some(old)) => Change::Modified {
            old,
            new: delta.object().unwrap().clone(),
        },
        (delta, None) => Change::Added(delta.object().unwrap().clone()),
    };
    let version = known.version().max(change.resource_version());
    known.apply(vec![change], version);
}

/// The pending deltas by object, each handled, as lines; those of the first list with a star.
fn pop_all(queue: &mut DeltaFifo, known: &Cache) -> Vec<String> {
    let turns = std::iter::from_fn(|| queue.pop());
    let line = |turn: Deltas| {
        handle(&turn, known);
        let deltas: Vec<_> = turn.deltas.iter().map(Delta::to_string).collect();
        let star = if turn.is_initial { "*" } else { "" };
        format!("{star}{}", deltas.join(", "))
    };
    turns.map(line).collect()
}

/// IN4, IN3: all changes of an object by a real watch and by the list after a cut are popped together,
/// in order.
#[tokio::test]
async fn in4_a_delta_fifo_over_https_accumulates_many_changes_of_an_object() {
    let remote = RemoteCluster::open().await;
    let (x, y) = (remote.created("x").await, remote.created("y").await);
    let mut deltas = DeltaStream::over(&remote);
    let (mut queue, known) = (DeltaFifo::new(), cache());
    let enqueue = |queue: &mut DeltaFifo, items: Vec<FifoItem>| {
        let known = known.snapshot();
        items.into_iter().for_each(|item| queue.enqueue(item, &known));
    };
    enqueue(&mut queue, deltas.until(y).await);
    assert_eq!(
        pop_all(&mut queue, &known),
        [
            format!("*Replaced default/x@{x}"),
            format!("*Replaced default/y@{y}")
        ]
    );

    let x1 = remote.update("x", "1").await;
    let z = remote.created("z").await;
    let (x2, x3, z1) = (
        remote.update("x", "2").await,
        remote.update("x", "3").await,
        remote.update("z", "1").await,
    );
    let (y1, y2) = (remote.delete("y").await, remote.created("y").await);
    enqueue(&mut queue, deltas.until(y2).await);
    assert_eq!(queue.len(), 3);
    assert_eq!(
        pop_all(&mut queue, &known),
        [
            format!("Updated default/x@{x1}, Updated default/x@{x2}, Updated default/x@{x3}"),
            format!("Added default/z@{z}, Updated default/z@{z1}"),
            format!("Deleted default/y@{y1}, Added default/y@{y2}"),
        ]
    );

    let x4 = remote.update("x", "4").await;
    enqueue(&mut queue, deltas.until(x4).await);
    remote.watches.cut::<ConfigMap>();
    let (x5, _) = (remote.update("x", "5").await, remote.delete("z").await);
    remote.forget().await;
    remote.watches.mend::<ConfigMap>();
    enqueue(&mut queue, deltas.until(remote.cluster.revision()).await);
    assert_eq!(
        pop_all(&mut queue, &known),
        [
            format!("Updated default/x@{x4}, Replaced default/x@{x5}"),
            format!("Replaced default/y@{y2}"),
            format!("Deleted default/z@{z1}?"),
        ]
    );

    let y3 = remote.delete("y").await;
    enqueue(&mut queue, deltas.until(y3).await);
    queue.resync(&known.snapshot());
    assert_eq!(
        pop_all(&mut queue, &known),
        [format!("Deleted default/y@{y3}"), format!("Sync default/x@{x5}")]
    );
    let left: Vec<_> = known.snapshot().iter().map(|map| format!("{map:?}")).collect();
    assert_eq!(left, [format!("default/x@{x5}")]);
}
