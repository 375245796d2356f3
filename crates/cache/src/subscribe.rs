//! Following a cache: a subscriber is a cursor on the shared window and a place to leave its waker.
//!
//! An apply appends to the window and wakes; each subscriber then reads at its own pace. A slow one costs nobody
//! anything, and if it falls out of the window it learns that it must start over.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use setpoint_api::ResourceVersion;

use crate::cache::Cache;
use crate::snapshot::Snapshot;
use crate::window::{Batch, TooOld};

/// One who follows a cache and is told every change exactly once, in order.
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
    /// The objects to start from, if the subscriber asked for no particular revision. The changes go on from there.
    pub initial: Option<Snapshot>,
    place: Place,
    /// The number of the next change to tell.
    cursor: u64,
    /// Committed changes up to here are not told.
    after: ResourceVersion,
    /// Everything up to here was in the initial state or has been told.
    told: ResourceVersion,
}

/// A subscriber's slot among the wakers, until it is dropped. Who has it loses nothing that is in the window from then on, so
/// it comes before the look at the cache.
#[derive(Debug)]
pub(crate) struct Place {
    cache: Arc<Cache>,
    slot: usize,
}

/// All subscribers, each in the slot it was given.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    /// Where each stands. Nobody has the slots that are empty.
    all: Vec<Option<Slot>>,
    free: Vec<usize>,
}

#[derive(Debug, Default)]
struct Slot {
    /// Where the subscriber stood when it last waited: it wants nothing before this.
    position: u64,
    waker: Option<Waker>,
}

// === impl Subscription ===

impl Subscription {
    pub(crate) fn from_now(place: Place) -> Self {
        let initial = place.cache.snapshot();
        Self {
            place,
            cursor: initial.sequence(),
            after: ResourceVersion::ZERO,
            told: initial.version,
            initial: Some(initial),
        }
    }

    pub(crate) fn after(place: Place, after: ResourceVersion) -> Result<Self, TooOld> {
        let cursor = place.cache.position_after(after)?;
        Ok(Self {
            place,
            cursor,
            after,
            told: after,
            initial: None,
        })
    }

    /// The next changes, waiting for them.
    pub async fn next(&mut self) -> Result<Batch, TooOld> {
        poll_fn(|cx| self.poll_changes(cx)).await
    }

    /// The next changes, or a promise to wake the task when there are some.
    pub fn poll_changes(&mut self, cx: &mut Context<'_>) -> Poll<Result<Batch, TooOld>> {
        match self.try_next()? {
            Some(batch) => Poll::Ready(Ok(batch)),
            None => self.poll_after_look(cx),
        }
    }

    /// There was nothing a moment ago. Changes may have come since, and have woken nobody.
    pub(crate) fn poll_after_look(&mut self, cx: &mut Context<'_>) -> Poll<Result<Batch, TooOld>> {
        self.place.wait(self.cursor, cx.waker());
        match self.try_next()? {
            Some(batch) => Poll::Ready(Ok(batch)),
            None => Poll::Pending,
        }
    }

    /// The next changes, if there are some now.
    pub fn try_next(&mut self) -> Result<Option<Batch>, TooOld> {
        let batch = self.place.cache.read_window(&mut self.cursor, self.after)?;
        if let Some(batch) = &batch {
            self.told = self.told.max(batch.version);
        }
        Ok(batch)
    }

    /// The number of the next change to tell; once it is the cache's [`Cache::sequence`], all has been told.
    pub fn position(&self) -> u64 {
        self.cursor
    }

    /// The revision up to which this subscriber has been told everything; `None` while changes lie ready for it.
    pub fn progress(&self) -> Option<ResourceVersion> {
        // The order matters: the window is looked at after the progress was, so nothing up to it can be missed. The
        // state would not do, since it is ahead of the window for a moment.
        let cache = &self.place.cache;
        let fed = cache.fed();
        let is_told = self.cursor >= cache.window_end();
        is_told.then_some(fed.max(self.told))
    }
}

// === impl Place ===

impl Place {
    pub(crate) fn take(cache: Arc<Cache>) -> Self {
        let slot = cache.wakers().join();
        Self { cache, slot }
    }

    fn wait(&self, position: u64, waker: &Waker) {
        self.cache.wakers().set(self.slot, position, waker);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.cache.wakers().leave(self.slot);
    }
}

// === impl Wakers ===

impl Wakers {
    fn join(&self) -> usize {
        let mut slots = self.slots.lock();
        let slot = slots.free.pop().unwrap_or(slots.all.len());
        if slot == slots.all.len() {
            slots.all.push(None);
        }
        slots.all[slot] = Some(Slot::default());
        slot
    }

    fn leave(&self, slot: usize) {
        let mut slots = self.slots.lock();
        slots.all[slot] = None;
        slots.free.push(slot);
    }

    fn set(&self, slot: usize, position: u64, waker: &Waker) {
        let mut slots = self.slots.lock();
        let slot = slots.all[slot].get_or_insert_default();
        slot.position = position;
        match &mut slot.waker {
            Some(own) => own.clone_from(waker),
            empty => *empty = Some(waker.clone()),
        }
    }

    /// Nobody wants a change before this one; `None` if nobody wants any.
    pub(crate) fn slowest(&self) -> Option<u64> {
        let slots = self.slots.lock();
        slots.all.iter().flatten().map(|slot| slot.position).min()
    }

    /// Wakes everyone who waits, after letting go of the lock.
    pub(crate) fn wake_all(&self) {
        let ready: Vec<Waker> = {
            let mut slots = self.slots.lock();
            let waiting = slots.all.iter_mut().flatten();
            waiting.filter_map(|slot| slot.waker.take()).collect()
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
