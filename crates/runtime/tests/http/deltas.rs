//! Both delta queues, fed by a reflector at the other end of a line: what a real watch tells, a cut, and the list after it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Change, ResourceVersion};
use setpoint_client::Object;
use setpoint_runtime::Cache;
use setpoint_runtime::delta::{BySlot, Delta, InOrder, Item, Turn};
use setpoint_runtime::reflector::{Reflector, Scope};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::far::Far;
use crate::{clock, in_time};

/// What a reflector says of the maps in the default namespace, until it is dropped.
struct Heard {
    items: mpsc::Receiver<Item>,
    _task: JoinSet<()>,
}

impl Heard {
    fn over(far: &Far) -> Self {
        let scope = Scope {
            namespace: "default".to_owned(),
            ..Scope::default()
        };
        let (sender, items) = mpsc::channel(100);
        let reflector = Reflector::new(&far.client, ConfigMap::resource(), scope, cache(), clock());
        let mut task = JoinSet::new();
        task.spawn(reflector.telling(sender).run(CancellationToken::new()));
        Self { items, _task: task }
    }

    /// Everything up to this revision but for bookmarks, which come when they like.
    async fn until(&mut self, version: ResourceVersion) -> Vec<Item> {
        let mut items = Vec::new();
        loop {
            let item = in_time(self.items.recv()).await.unwrap();
            let reached = reached(&item);
            items.extend(Some(item).filter(|item| !matches!(item, Item::Bookmark(_))));
            if reached >= version {
                return items;
            }
        }
    }
}

impl Far {
    async fn delete(&self, name: &str) -> ResourceVersion {
        let maps = self.cluster.client("test").namespaced::<ConfigMap>("default");
        maps.delete(name, DeleteOptions::default()).await.unwrap();
        self.cluster.newest()
    }

    async fn created(&self, name: &str) -> ResourceVersion {
        self.create(name).await;
        self.cluster.newest()
    }

    /// Forgets what happened so far: whoever wants to go on from there is told that it is gone.
    async fn forget(&self) {
        let (cache, newest) = (self.cluster.cache::<ConfigMap>(), self.cluster.newest());
        in_time(cache.reached(newest)).await;
        cache.trim(newest);
    }
}

fn cache() -> Arc<Cache> {
    Arc::new(Cache::new(ConfigMap::resource().group_resource()))
}

fn reached(item: &Item) -> ResourceVersion {
    match item {
        Item::One(delta) => delta.object().unwrap().resource_version(),
        Item::ReplacedAll(_, version) | Item::Bookmark(version) => *version,
        Item::SyncAll => ResourceVersion::ZERO,
    }
}

fn shown(item: &Item) -> String {
    match item {
        Item::One(delta) => delta.to_string(),
        Item::ReplacedAll(objects, _) => format!("All {objects:?}"),
        Item::SyncAll | Item::Bookmark(_) => format!("{item:?}"),
    }
}

#[track_caller]
fn check<T>(told: &[T], shown: impl Fn(&T) -> String, expected: &[String]) {
    let told: Vec<_> = told.iter().map(shown).collect();
    assert_eq!(told, expected);
}

/// IN3, IN4, IN2: in order, each change that a real watch tells is one record of its kind, and the list after a cut that
/// outlasted the server's memory is one step, which tells the ends that nobody saw.
#[tokio::test]
async fn in3_a_queue_fed_over_https_tells_every_change_by_its_kind_in_order() {
    let far = Far::open().await;
    let (x, y) = (far.created("x").await, far.created("y").await);
    let mut heard = Heard::over(&far);
    let (mut queue, cache) = (InOrder::new(), cache());
    let items = heard.until(y).await;
    check(&items, shown, &[format!("All [default/x@{x}, default/y@{y}]")]);
    items.into_iter().for_each(|item| queue.hear(item));
    assert!(!queue.has_synced());
    let told = queue.drain_into(&cache);
    check(
        &told,
        Delta::to_string,
        &[format!("Added default/x@{x}"), format!("Added default/y@{y}")],
    );
    assert!(queue.has_synced());

    let (x1, x2) = (far.update("x", "1").await, far.update("x", "2").await);
    let (z, y1) = (far.created("z").await, far.delete("y").await);
    let expected = [
        format!("Updated default/x@{x1}"),
        format!("Updated default/x@{x2}"),
        format!("Added default/z@{z}"),
        format!("Deleted default/y@{y1}"),
    ];
    let items = heard.until(y1).await;
    check(&items, shown, &expected);
    items.into_iter().for_each(|item| queue.hear(item));
    check(&queue.drain_into(&cache), Delta::to_string, &expected);

    far.line.cut::<ConfigMap>();
    let (x3, _, w) = (
        far.update("x", "3").await,
        far.delete("z").await,
        far.created("w").await,
    );
    far.forget().await;
    far.line.mend::<ConfigMap>();
    let items = heard.until(w).await;
    check(&items, shown, &[format!("All [default/w@{w}, default/x@{x3}]")]);
    items.into_iter().for_each(|item| queue.hear(item));
    queue.resync();
    let expected = [
        format!("Deleted default/z@{z}?"),
        format!("Added default/w@{w}"),
        format!("Updated default/x@{x3}"),
        format!("Sync default/w@{w}"),
        format!("Sync default/x@{x3}"),
    ];
    check(&queue.drain_into(&cache), Delta::to_string, &expected);
    // One that filled, one that was told that its place is gone, and one that filled again.
    assert_eq!(far.link.reads(), ["far watch configmaps"; 3]);
}

/// Does with a turn what its owner does: the newest is what is known.
fn handle(turn: &Turn, known: &Cache) {
    let (newest, old) = (turn.deltas.last().unwrap(), known.find(&turn.key));
    let change = match (newest, old) {
        (Delta::Deleted(gone), Some(old)) => {
            let last = gone.last().unwrap_or(&old).clone();
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

/// The turns that wait, each handled, as lines; those of the first list with a star.
fn turns(queue: &mut BySlot, known: &Cache) -> Vec<String> {
    let turns = std::iter::from_fn(|| queue.pop());
    let line = |turn: Turn| {
        handle(&turn, known);
        let deltas: Vec<_> = turn.deltas.iter().map(Delta::to_string).collect();
        let star = if turn.is_initial { "*" } else { "" };
        format!("{star}{}", deltas.join(", "))
    };
    turns.map(line).collect()
}

/// IN4, IN3: with a slot for each object, all that a real watch and the list after a cut tell of it before its turn takes
/// one turn, which carries it in order.
#[tokio::test]
async fn in4_a_slot_fed_over_https_takes_one_turn_for_many_changes() {
    let far = Far::open().await;
    let (x, y) = (far.created("x").await, far.created("y").await);
    let mut heard = Heard::over(&far);
    let (mut queue, known) = (BySlot::new(), cache());
    let hear = |queue: &mut BySlot, items: Vec<Item>| {
        let known = known.snapshot();
        items.into_iter().for_each(|item| queue.hear(item, &known));
    };
    hear(&mut queue, heard.until(y).await);
    assert_eq!(
        turns(&mut queue, &known),
        [
            format!("*Replaced default/x@{x}"),
            format!("*Replaced default/y@{y}")
        ]
    );

    let x1 = far.update("x", "1").await;
    let z = far.created("z").await;
    let (x2, x3, z1) = (
        far.update("x", "2").await,
        far.update("x", "3").await,
        far.update("z", "1").await,
    );
    let (y1, y2) = (far.delete("y").await, far.created("y").await);
    hear(&mut queue, heard.until(y2).await);
    assert_eq!(queue.len(), 3);
    assert_eq!(
        turns(&mut queue, &known),
        [
            format!("Updated default/x@{x1}, Updated default/x@{x2}, Updated default/x@{x3}"),
            format!("Added default/z@{z}, Updated default/z@{z1}"),
            format!("Deleted default/y@{y1}, Added default/y@{y2}"),
        ]
    );

    let x4 = far.update("x", "4").await;
    hear(&mut queue, heard.until(x4).await);
    far.line.cut::<ConfigMap>();
    let (x5, _) = (far.update("x", "5").await, far.delete("z").await);
    far.forget().await;
    far.line.mend::<ConfigMap>();
    hear(&mut queue, heard.until(far.cluster.newest()).await);
    assert_eq!(
        turns(&mut queue, &known),
        [
            format!("Updated default/x@{x4}, Replaced default/x@{x5}"),
            format!("Replaced default/y@{y2}"),
            format!("Deleted default/z@{z1}?"),
        ]
    );

    let y3 = far.delete("y").await;
    hear(&mut queue, heard.until(y3).await);
    queue.resync(&known.snapshot());
    assert_eq!(
        turns(&mut queue, &known),
        [format!("Deleted default/y@{y3}"), format!("Sync default/x@{x5}")]
    );
    let left: Vec<_> = known.snapshot().iter().map(|map| format!("{map:?}")).collect();
    assert_eq!(left, [format!("default/x@{x5}")]);
}
