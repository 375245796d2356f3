//! [`Cache`]: one writer, any number of readers.
//!
//! An apply has three steps, always in this order: the new state becomes visible, the changes are appended to the
//! window, the subscribers are woken. So a subscriber that receives a change finds it, or something newer, in the cache.

use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use setpoint_api::{Change, GroupResource, Key, ResourceVersion, Stored};
use tokio::sync::watch;

use crate::index::{Index, IndexFunc};
use crate::metrics::Metrics;
use crate::progress::Progress;
use crate::shared_poller::SharedPoller;
use crate::snapshot::{Snapshot, State};
use crate::subscribe::{Subscription, WakerSlot, Wakers};
use crate::window::{Batch, RevisionOrder, TooOld, Window};

/// Upper bounds of the history a cache keeps for its subscribers, independent of [`Cache::trim`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many changes.
    pub changes: usize,
    /// An estimate of the memory that is in use only for the history.
    pub bytes: usize,
}

/// The current objects of one resource, shared by remote watchers and local informers.
///
/// ```
/// use setpoint_api::{Change, GroupResource, Header, Key, ResourceVersion, Stored};
/// use setpoint_cache::Cache;
/// use std::sync::Arc;
///
/// let object = |name: &str, node: &str| {
///     let mut header = Header::new(Key::new("default", name));
///     header.fields = [("spec.nodeName".into(), node.into())].into();
///     Arc::new(Stored::new(header, "{}".into(), 1))
/// };
/// let cache = Cache::new(GroupResource::new("", "pods"));
/// cache.add_index("node", |pod| pod.field("spec.nodeName").map(Into::into).into_iter().collect());
/// cache.replace(vec![object("a", "n1"), object("b", "n2")], ResourceVersion(7));
/// cache.apply(vec![Change::Added(object("c", "n2"))], ResourceVersion(8));
///
/// let on_n2: Vec<_> = cache.indexed("node", "n2").iter().map(|pod| pod.key().to_string()).collect();
/// assert_eq!(on_n2, ["default/b", "default/c"]);
/// assert_eq!(cache.version(), ResourceVersion(8));
/// ```
pub struct Cache {
    resource: GroupResource,
    limits: Limits,
    /// Whether changes delivered to all subscribers are dropped at the next apply.
    trims_delivered: bool,
    progress: ProgressSource,
    /// Modified in place, with the lock held only briefly: nothing is copied while no snapshot is alive.
    state: RwLock<State>,
    /// Held by the writer from reading the state to appending to the window.
    writer: Mutex<()>,
    /// Taken after `writer`, never together with `state`. It may be one apply behind `state`, never ahead.
    window: RwLock<Window>,
    wakers: Wakers,
    shared_poller: SharedPoller,
    synced: watch::Sender<bool>,
}

/// The progress that a cache follows.
#[derive(Debug)]
enum ProgressSource {
    /// The cache has a writer of its own; each apply is progress.
    Own(Progress),
    /// The cache is one of several with one writer, which advances the progress when all of them are up to date.
    Shared(Arc<Progress>),
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            changes: 100_000,
            bytes: 128 << 20,
        }
    }
}

// === impl Cache ===

impl Cache {
    /// An empty cache with a writer and a progress of its own.
    pub fn new(resource: GroupResource) -> Self {
        Self::build(resource, ProgressSource::Own(Progress::new()))
    }

    /// An empty cache, one of several that share a writer and a progress.
    pub fn with_progress(resource: GroupResource, progress: Arc<Progress>) -> Self {
        Self::build(resource, ProgressSource::Shared(progress))
    }

    fn build(resource: GroupResource, progress: ProgressSource) -> Self {
        Self {
            resource,
            limits: Limits::default(),
            trims_delivered: false,
            progress,
            state: RwLock::new(State::new()),
            writer: Mutex::new(()),
            window: RwLock::new(Window::new()),
            wakers: Wakers::default(),
            shared_poller: SharedPoller::default(),
            synced: watch::Sender::new(false),
        }
    }

    /// A cache with the objects, indexes and history of this one, which then diverges. Both share what they have in
    /// common. The fork is one of several with this progress, which its caller has set to what this cache has reached.
    pub fn fork(&self, progress: Arc<Progress>) -> Self {
        // Between two applies, so that the state and the window agree.
        let _writer = self.writer.lock();
        Self {
            resource: self.resource.clone(),
            limits: self.limits,
            trims_delivered: self.trims_delivered,
            progress: ProgressSource::Shared(progress),
            state: RwLock::new(self.state.read().clone()),
            writer: Mutex::new(()),
            window: RwLock::new(self.window.read().clone()),
            wakers: Wakers::default(),
            shared_poller: SharedPoller::default(),
            synced: watch::Sender::new(self.is_synced()),
        }
    }

    /// The same cache with other limits to its history.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The same cache, which drops changes that all subscribers have received at the next apply. For caches whose
    /// subscribers all start from a snapshot: none can resume from an older revision.
    #[must_use]
    pub fn trim_delivered(self) -> Self {
        Self {
            trims_delivered: true,
            ..self
        }
    }

    /// The resource whose objects are cached.
    pub fn resource(&self) -> &GroupResource {
        &self.resource
    }

    /// The object of this key, as it is now.
    pub fn find(&self, key: &Key) -> Option<Arc<Stored>> {
        self.state.read().objects.get(key).cloned()
    }

    /// All objects as they are now.
    pub fn snapshot(&self) -> Snapshot {
        // Progress first: everything up to it is in the state that is read after it.
        let progress = self.progress.get().version();
        Snapshot::new(self.state.read().clone(), progress)
    }

    /// The objects with this value in an index, by key. The index must have been added.
    pub fn indexed(&self, index: &str, value: &str) -> Vec<Arc<Stored>> {
        self.state.read().index(index).find(value)
    }

    /// Adds an index, over present and future objects. A name stands for one function: adding it
    /// again changes nothing, so every reader adds the indexes it needs.
    pub fn add_index(&self, name: &'static str, values: IndexFunc) {
        let _writer = self.writer.lock();
        let objects = {
            let state = self.state.read();
            if state.indexes.iter().any(|index| index.name == name) {
                return;
            }
            state.objects.clone()
        };
        let mut index = Index::new(name, values);
        objects.values().for_each(|object| index.insert(object));
        self.state.write().indexes.push(index);
    }

    /// The revision the cache has reached: it has everything up to it.
    pub fn version(&self) -> ResourceVersion {
        let progress = self.progress.get().version();
        self.state.read().version.max(progress)
    }

    /// Resolves once the cache has reached a revision.
    pub async fn reached(&self, version: ResourceVersion) {
        if self.version() < version {
            self.progress.get().reached(version).await;
        }
    }

    /// The number of changes applied since the cache was created. A subscriber at this position is up to date.
    pub fn sequence(&self) -> u64 {
        self.state.read().sequence
    }

    /// Whether the cache has been filled for the first time.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Resolves once the cache has been filled for the first time.
    pub async fn synced(&self) {
        let mut synced = self.synced.subscribe();
        synced
            .wait_for(|synced| *synced)
            .await
            .expect("the sender lives as long as the cache");
    }

    /// Follows the changes after a revision, or, without one, those after the snapshot in [`Subscription::initial`].
    pub fn subscribe(self: &Arc<Self>, after: Option<ResourceVersion>) -> Result<Subscription, TooOld> {
        let slot = WakerSlot::acquire(self.clone());
        match after {
            None => Ok(Subscription::from_now(slot)),
            Some(after) => Subscription::after(slot, after),
        }
    }

    /// Runs a future that follows this cache together with all others passed here: one of the calling tasks polls them
    /// all, so that a change wakes one task instead of many. None of them may block or take long in a poll.
    pub async fn poll_shared(self: Arc<Self>, follower: impl Future<Output = ()> + Send + 'static) {
        self.shared_poller.run(follower).await;
    }

    /// The size and state of the cache now.
    pub fn metrics(&self) -> Metrics {
        let (objects, version) = (self.state.read().objects.len(), self.version());
        let window = self.window.read();
        Metrics {
            objects,
            version,
            window_changes: window.len(),
            window_bytes: window.weight(),
            undelivered_changes: window.after(self.wakers.slowest()),
            oldest: window.oldest(),
            subscribers: self.wakers.len(),
        }
    }

    /// The revision up to which everything is in the state and in the window.
    pub(crate) fn progress_version(&self) -> ResourceVersion {
        self.progress.get().version()
    }

    pub(crate) fn wakers(&self) -> &Wakers {
        &self.wakers
    }

    pub(crate) fn position_after(&self, after: ResourceVersion) -> Result<u64, TooOld> {
        self.window.read().position_after(after)
    }

    pub(crate) fn window_end(&self) -> u64 {
        self.window.read().next()
    }

    pub(crate) fn read_window(
        &self,
        cursor: &mut u64,
        after: ResourceVersion,
    ) -> Result<Option<Batch>, TooOld> {
        self.window.read().read(cursor, after)
    }
}

/// Functions for the cache's one writer.
impl Cache {
    /// Applies one batch of committed changes in the order of their revisions, all of them up to `version`.
    ///
    /// With a shared progress the writer advances that itself, after it has applied the batch to the last cache.
    pub fn apply(&self, changes: Vec<Change>, version: ResourceVersion) {
        if !changes.is_empty() {
            let writer = self.writer.lock();
            self.publish(changes, version, RevisionOrder::Committed);
            drop(writer);
            self.wakers.wake_all();
        }
        self.progress.applied(version);
    }

    /// Replaces the contents by a list at a revision (a relist): the difference becomes changes. Deletions come first,
    /// with the last known state. An object whose revision is unchanged stays as it is, the very same `Arc`.
    pub fn replace(&self, objects: Vec<Arc<Stored>>, version: ResourceVersion) {
        let writer = self.writer.lock();
        let changes = difference(&self.snapshot(), objects);
        if !self.is_synced() && self.wakers.len() == 0 {
            self.fill(&changes, version);
        } else {
            self.publish(changes, version, RevisionOrder::Replaced);
        }
        drop(writer);
        self.wakers.wake_all();
        self.progress.applied(version);
        self.synced.send_replace(true);
    }

    /// Advances the progress without a change, as a bookmark does. With a shared progress the writer does this itself.
    pub fn bookmark(&self, version: ResourceVersion) {
        self.progress.applied(version);
    }

    /// Drops the history up to this revision.
    pub fn trim(&self, oldest: ResourceVersion) {
        self.window.write().trim(oldest);
    }

    fn publish(&self, changes: Vec<Change>, version: ResourceVersion, order: RevisionOrder) {
        self.state.write().apply(&changes, version);
        if changes.is_empty() {
            return;
        }
        let mut window = self.window.write();
        if self.trims_delivered {
            window.drop_before(self.wakers.slowest());
        }
        window.push(changes, version, order);
        window.shrink(self.limits.changes, self.limits.bytes);
    }

    /// The first fill, without subscribers: no history is needed.
    fn fill(&self, changes: &[Change], version: ResourceVersion) {
        let sequence = {
            let mut state = self.state.write();
            state.apply(changes, version);
            state.sequence
        };
        self.window.write().restart(version, sequence);
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("resource", &self.resource)
            .field("metrics", &self.metrics())
            .finish_non_exhaustive()
    }
}

// === impl ProgressSource ===

impl ProgressSource {
    fn get(&self) -> &Progress {
        match self {
            Self::Own(progress) => progress,
            Self::Shared(progress) => progress,
        }
    }

    fn applied(&self, version: ResourceVersion) {
        if let Self::Own(progress) = self {
            progress.advance(version);
        }
    }
}

/// The changes that turn the state into the list: deletions, then the rest in the order of the list.
fn difference(before: &Snapshot, objects: Vec<Arc<Stored>>) -> Vec<Change> {
    let mut listed: Vec<Key> = objects.iter().map(|object| object.key().clone()).collect();
    listed.sort_unstable();
    let mut changes: Vec<Change> = before
        .iter()
        .filter(|old| listed.binary_search(old.key()).is_err())
        .map(|old| Change::Deleted {
            old: old.clone(),
            last: old.clone(),
        })
        .collect();
    changes.extend(objects.into_iter().filter_map(|new| change_to(before, new)));
    changes
}

fn change_to(before: &Snapshot, new: Arc<Stored>) -> Option<Change> {
    match before.find(new.key()) {
        None => Some(Change::Added(new)),
        Some(old) if old.resource_version() == new.resource_version() => None,
        Some(old) => Some(Change::Modified {
            old: old.clone(),
            new,
        }),
    }
}

#[cfg(test)]
mod tests;
