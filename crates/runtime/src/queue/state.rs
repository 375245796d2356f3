//! The queue without its waiting: plain sets, moved by plain functions.

use std::collections::HashMap;
#[cfg(test)]
use std::collections::HashSet;

use jiff::Timestamp;

use super::Options;
use super::backoff::Backoff;
use super::delay::Delays;
use super::metrics::{Counters, Metrics};
use super::order::{Order, Place, Priority};
use crate::reconcile::Item;

/// Whether the queue still takes items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Items come and go.
    Open,
    /// No item is taken; someone waits for those in work.
    Draining,
    /// No item is taken, and nobody waits.
    ShutDown,
}

#[derive(Debug)]
pub(crate) struct State<K> {
    stage: Stage,
    /// The order of handing out. Each item in it is dirty and not processing.
    ready: Order<K>,
    /// What wants attention. Each item is in `ready` or in `processing`.
    dirty: HashMap<K, Dirty>,
    /// What a worker has.
    processing: HashMap<K, Processing>,
    delays: Delays<K>,
    backoff: Backoff<K>,
    counters: Counters,
    /// Whether one of those who wait keeps the time.
    timed: bool,
}

#[derive(Debug)]
struct Dirty {
    since: Timestamp,
    priority: Priority,
    /// Where it stands among the ready; absent exactly while it is processing.
    place: Option<Place>,
}

#[derive(Debug, Clone, Copy)]
struct Processing {
    since: Timestamp,
    /// What it was taken with, and comes back with if it fails.
    priority: Priority,
}

// === impl State ===

impl<K: Item> State<K> {
    pub(crate) fn new(options: Options<K>) -> Self {
        let Options {
            limits,
            point,
            lane_of,
        } = options;
        Self {
            stage: Stage::Open,
            ready: Order::new(point, lane_of),
            dirty: HashMap::new(),
            processing: HashMap::new(),
            delays: Delays::new(),
            backoff: Backoff::new(limits),
            counters: Counters::default(),
            timed: false,
        }
    }

    /// Whether an item became ready.
    pub(crate) fn add(&mut self, item: K, priority: Priority, now: Timestamp) -> bool {
        if self.stage != Stage::Open {
            return false;
        }
        if let Some(dirty) = self.dirty.get_mut(&item) {
            if priority > dirty.priority {
                dirty.priority = priority;
                let place = dirty.place.take();
                dirty.place = place.map(|place| self.ready.move_to(&place, priority, now));
            }
            return false;
        }
        self.counters.adds += 1;
        let is_ready = !self.processing.contains_key(&item);
        let place = is_ready.then(|| self.ready.push(item.clone(), priority, now));
        let since = now;
        let dirty = Dirty {
            since,
            priority,
            place,
        };
        self.dirty.insert(item, dirty);
        is_ready
    }

    /// Whether the next item is now due earlier than before. One that is in work comes back as urgent as it was taken.
    pub(crate) fn delay(&mut self, item: K, at: Timestamp) -> bool {
        let priority = self.priority_of(&item);
        self.stage == Stage::Open && self.delays.insert(item, at, priority)
    }

    pub(crate) fn priority_of(&self, item: &K) -> Priority {
        let processing = self.processing.get(item);
        processing.map_or(Priority::CHANGE, |processing| processing.priority)
    }

    pub(crate) fn take(&mut self, now: Timestamp) -> Option<K> {
        self.wake_due(now);
        let item = self.ready.pop()?;
        let dirty = self.dirty.remove(&item).expect("an item that is ready is dirty");
        self.counters.waited.observe(now.duration_since(dirty.since));
        let processing = Processing {
            since: now,
            priority: dirty.priority,
        };
        self.processing.insert(item.clone(), processing);
        Some(item)
    }

    /// Whether the item is ready once more.
    pub(crate) fn done(&mut self, item: &K, now: Timestamp) -> bool {
        let processing = self.processing.remove(item);
        let processing = processing.expect("an item that is done was processing");
        self.counters.worked.observe(now.duration_since(processing.since));
        let Some(dirty) = self.dirty.get_mut(item) else {
            return false;
        };
        dirty.place = Some(self.ready.push(item.clone(), dirty.priority, now));
        true
    }

    /// How long the item, which failed once more, has to wait.
    pub(crate) fn fail(&mut self, item: &K, now: Timestamp) -> std::time::Duration {
        self.counters.retries += 1;
        self.backoff.fail(item, now)
    }

    pub(crate) fn forget(&mut self, item: &K) {
        self.backoff.forget(item);
    }

    pub(crate) fn failures(&self, item: &K) -> u32 {
        self.backoff.failures(item)
    }

    pub(crate) fn len(&mut self, now: Timestamp) -> usize {
        self.wake_due(now);
        self.ready.len()
    }

    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    pub(crate) fn shut_down(&mut self, stage: Stage) {
        self.stage = stage;
        self.delays.clear();
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.processing.is_empty()
    }

    pub(crate) fn in_work(&self) -> Vec<K> {
        let mut items: Vec<K> = self.processing.keys().cloned().collect();
        items.sort_unstable();
        items
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.is_idle() || self.stage == Stage::ShutDown
    }

    /// Whether the caller keeps the time from now on.
    pub(crate) fn claim_time(&mut self) -> bool {
        !std::mem::replace(&mut self.timed, true)
    }

    pub(crate) fn release_time(&mut self) {
        self.timed = false;
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.delays.next()
    }

    pub(crate) fn metrics(&mut self, now: Timestamp) -> Metrics {
        let depth = self.len(now);
        let running = self.processing.values();
        let running = running.map(|processing| now.duration_since(processing.since));
        self.counters.metrics(depth, self.delays.len(), running)
    }

    fn wake_due(&mut self, now: Timestamp) {
        while let Some((item, priority)) = self.delays.pop(now) {
            self.add(item, priority, now);
        }
    }
}

/// Panics where the sets disagree.
#[cfg(test)]
impl<K: Item> State<K> {
    pub(crate) fn check(&self) {
        let ready: HashSet<&K> = self.ready.iter().collect();
        assert_eq!(ready.len(), self.ready.len(), "an item is ready once");
        for item in self.ready.iter() {
            assert!(self.dirty.contains_key(item) && !self.processing.contains_key(item));
        }
        for (item, dirty) in &self.dirty {
            assert!(ready.contains(item) != self.processing.contains_key(item));
            assert!(ready.contains(item) == dirty.place.is_some());
        }
    }
}
