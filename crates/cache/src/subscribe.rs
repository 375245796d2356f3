//! [`Subscription`]: a cursor on the shared window of changes, and a slot for the waker of the task that reads it.
//!
//! An apply appends to the window and wakes the subscribers; each then reads at its own pace. A slow subscriber delays
//! neither the writer nor the other subscribers; once the window has dropped what it still needs, it gets [`TooOld`] and
//! starts over from a snapshot.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use setpoint_api::ResourceVersion;

use crate::cache::Cache;
use crate::snapshot::Snapshot;
use crate::window::{Batch, TooOld};

/// A subscriber's position in a cache's history: delivers every change exactly once, in order.
///
/// ```
/// # use setpoint_api::{Change, GroupResource, Header, Key, ResourceVersion, Stored};
/// # use setpoint_cache::Cache;
/// # use std::sync::Arc;
/// # let object = |name: &str, version| {
/// #     let mut header = Header::new(Key::new("", name));
/// #     header.resource_version = ResourceVersion(version);
/// #     Arc::new(Stored::new(header, "{}".into(), 1))
/// # };
/// let cache = Arc::new(Cache::new(GroupResource::new("", "nodes")));
/// cache.replace(vec![object("a", 7)], ResourceVersion(7));
/// let mut changes = cache.subscribe(Some(ResourceVersion(7))).unwrap();
/// cache.apply(vec![Change::Added(object("b", 8))], ResourceVersion(8));
///
/// let batch = changes.try_next().unwrap().expect("something has happened");
/// assert_eq!(batch.changes().len(), 1);
/// assert!(changes.try_next().unwrap().is_none());
/// ```
#[derive(Debug)]
pub struct Subscription {
    /// The objects to start from, if the subscriber named no revision. The changes continue from there.
    pub initial: Option<Snapshot>,
    slot: WakerSlot,
    /// The sequence number of the next change to deliver.
    cursor: u64,
    /// Committed changes up to here are skipped.
    after: ResourceVersion,
    /// Everything up to here was in the initial snapshot or has been delivered.
    delivered: ResourceVersion,
}

/// A subscriber's slot in [`Wakers`], freed on drop. It is taken before the snapshot is read: from then on
/// [`Cache::trim_delivered`] keeps every change the subscriber needs.
#[derive(Debug)]
pub(crate) struct WakerSlot {
    cache: Arc<Cache>,
    index: usize,
}

/// The wakers of all subscribers, by slot.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    /// `None` for a free slot.
    all: Vec<Option<SubscriberState>>,
    free: Vec<usize>,
}

#[derive(Debug, Default)]
struct SubscriberState {
    /// The subscriber's cursor when it last waited: it needs no change before this.
    position: u64,
    waker: Option<Waker>,
}

// === impl Subscription ===

impl Subscription {
    pub(crate) fn from_now(slot: WakerSlot) -> Self {
        let initial = slot.cache.snapshot();
        Self {
            slot,
            cursor: initial.sequence(),
            after: ResourceVersion::ZERO,
            delivered: initial.version,
            initial: Some(initial),
        }
    }

    pub(crate) fn after(slot: WakerSlot, after: ResourceVersion) -> Result<Self, TooOld> {
        let cursor = slot.cache.position_after(after)?;
        Ok(Self {
            slot,
            cursor,
            after,
            delivered: after,
            initial: None,
        })
    }

    /// The next changes, waiting for them.
    pub async fn next(&mut self) -> Result<Batch, TooOld> {
        poll_fn(|cx| self.poll_changes(cx)).await
    }

    /// The next changes; else registers the task's waker and returns `Pending`.
    pub fn poll_changes(&mut self, cx: &mut Context<'_>) -> Poll<Result<Batch, TooOld>> {
        match self.try_next()? {
            Some(batch) => Poll::Ready(Ok(batch)),
            None => self.poll_after_look(cx),
        }
    }

    /// Registers the waker, then reads again: changes appended since the last read woke no task.
    pub(crate) fn poll_after_look(&mut self, cx: &mut Context<'_>) -> Poll<Result<Batch, TooOld>> {
        self.slot.wait(self.cursor, cx.waker());
        match self.try_next()? {
            Some(batch) => Poll::Ready(Ok(batch)),
            None => Poll::Pending,
        }
    }

    /// The next changes, if there are some now.
    pub fn try_next(&mut self) -> Result<Option<Batch>, TooOld> {
        let batch = self.slot.cache.read_window(&mut self.cursor, self.after)?;
        if let Some(batch) = &batch {
            self.delivered = self.delivered.max(batch.version);
        }
        Ok(batch)
    }

    /// The sequence number of the next change; equal to [`Cache::sequence`] once every change has been delivered.
    pub fn position(&self) -> u64 {
        self.cursor
    }

    /// The revision up to which everything has been delivered to this subscriber; `None` while changes are pending.
    pub fn progress(&self) -> Option<ResourceVersion> {
        // Order matters: the window is read after the progress, so nothing up to that revision can be missed. The
        // state's revision would not do, since the state is ahead of the window for a moment.
        let cache = &self.slot.cache;
        let progress = cache.progress_version();
        let is_delivered = self.cursor >= cache.window_end();
        is_delivered.then_some(progress.max(self.delivered))
    }
}

// === impl WakerSlot ===

impl WakerSlot {
    pub(crate) fn acquire(cache: Arc<Cache>) -> Self {
        let index = cache.wakers().join();
        Self { cache, index }
    }

    fn wait(&self, position: u64, waker: &Waker) {
        self.cache.wakers().set(self.index, position, waker);
    }
}

impl Drop for WakerSlot {
    fn drop(&mut self) {
        self.cache.wakers().leave(self.index);
    }
}

// === impl Wakers ===

impl Wakers {
    fn join(&self) -> usize {
        let mut slots = self.slots.lock();
        let index = slots.free.pop().unwrap_or(slots.all.len());
        if index == slots.all.len() {
            slots.all.push(None);
        }
        slots.all[index] = Some(SubscriberState::default());
        index
    }

    fn leave(&self, index: usize) {
        let mut slots = self.slots.lock();
        slots.all[index] = None;
        slots.free.push(index);
    }

    fn set(&self, index: usize, position: u64, waker: &Waker) {
        let mut slots = self.slots.lock();
        let subscriber = slots.all[index].get_or_insert_default();
        subscriber.position = position;
        match &mut subscriber.waker {
            Some(own) => own.clone_from(waker),
            empty => *empty = Some(waker.clone()),
        }
    }

    /// The smallest cursor of all subscribers: no change before it is needed. `None` without subscribers.
    pub(crate) fn slowest(&self) -> Option<u64> {
        let slots = self.slots.lock();
        slots
            .all
            .iter()
            .flatten()
            .map(|subscriber| subscriber.position)
            .min()
    }

    /// Wakes all waiting subscribers, after the lock is released.
    pub(crate) fn wake_all(&self) {
        let ready: Vec<Waker> = {
            let mut slots = self.slots.lock();
            let waiting = slots.all.iter_mut().flatten();
            waiting.filter_map(|subscriber| subscriber.waker.take()).collect()
        };
        for waker in ready {
            waker.wake();
        }
    }

    /// How many subscribers there are.
    pub(crate) fn len(&self) -> usize {
        let slots = self.slots.lock();
        slots.all.len() - slots.free.len()
    }
}
