//! The state of the queue: plain sets and functions, without waiting or locks.

use std::collections::HashMap;
#[cfg(test)]
use std::collections::HashSet;

use jiff::Timestamp;

use super::Options;
use super::delay::Delays;
use super::metrics::{Counters, Metrics};
use super::rate_limiter::RateLimiter;
use super::ready::{Position, Priority, ReadyQueue};
use crate::reconcile::Item;

/// Whether the queue still accepts items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Items are accepted.
    Open,
    /// No item is accepted; a caller waits until the items in process are done.
    Draining,
    /// No item is accepted, and a drain is aborted.
    ShutDown,
}

#[derive(Debug)]
pub(crate) struct State<K> {
    stage: Stage,
    /// The items to hand out, in order. Each is dirty and not processing.
    ready: ReadyQueue<K>,
    /// The items to process. Each is in `ready` or in `processing`.
    dirty: HashMap<K, DirtyItem>,
    /// The items that workers have.
    processing: HashMap<K, ProcessingItem>,
    delays: Delays<K>,
    rate_limiter: RateLimiter<K>,
    counters: Counters,
    /// Whether one of the waiting workers runs the timer.
    has_timer: bool,
}

#[derive(Debug)]
struct DirtyItem {
    since: Timestamp,
    priority: Priority,
    /// Its position in `ready`; absent exactly while it is processing.
    position: Option<Position>,
}

#[derive(Debug, Clone, Copy)]
struct ProcessingItem {
    since: Timestamp,
    /// The priority it had when it was taken, kept for a retry.
    priority: Priority,
}

// === impl State ===

impl<K: Item> State<K> {
    pub(crate) fn new(options: Options<K>) -> Self {
        let Options {
            limits,
            wait_per_priority,
            lane_of,
        } = options;
        Self {
            stage: Stage::Open,
            ready: ReadyQueue::new(wait_per_priority, lane_of),
            dirty: HashMap::new(),
            processing: HashMap::new(),
            delays: Delays::new(),
            rate_limiter: RateLimiter::new(limits),
            counters: Counters::default(),
            has_timer: false,
        }
    }

    /// Marks an item dirty; true if it became ready.
    pub(crate) fn add(&mut self, item: K, priority: Priority, now: Timestamp) -> bool {
        if self.stage != Stage::Open {
            return false;
        }
        if let Some(dirty) = self.dirty.get_mut(&item) {
            if priority > dirty.priority {
                dirty.priority = priority;
                let position = dirty.position.take();
                dirty.position = position.map(|position| self.ready.move_to(&position, priority, now));
            }
            return false;
        }
        self.counters.adds += 1;
        let is_ready = !self.processing.contains_key(&item);
        let position = is_ready.then(|| self.ready.push(item.clone(), priority, now));
        let since = now;
        let dirty = DirtyItem {
            since,
            priority,
            position,
        };
        self.dirty.insert(item, dirty);
        is_ready
    }

    /// Delays an item; true if the next item is now due earlier than before. An item in process keeps its priority.
    pub(crate) fn delay(&mut self, item: K, at: Timestamp) -> bool {
        let priority = self.priority_of(&item);
        self.stage == Stage::Open && self.delays.insert(item, at, priority)
    }

    pub(crate) fn priority_of(&self, item: &K) -> Priority {
        let processing = self.processing.get(item);
        processing.map_or(Priority::DEFAULT, |processing| processing.priority)
    }

    pub(crate) fn take(&mut self, now: Timestamp) -> Option<K> {
        self.wake_due(now);
        let item = self.ready.pop()?;
        let dirty = self.dirty.remove(&item).expect("an item that is ready is dirty");
        self.counters
            .queue_duration
            .observe(now.duration_since(dirty.since).as_secs_f64());
        let processing = ProcessingItem {
            since: now,
            priority: dirty.priority,
        };
        self.processing.insert(item.clone(), processing);
        Some(item)
    }

    /// Ends the processing of an item; true if it is ready again.
    pub(crate) fn done(&mut self, item: &K, now: Timestamp) -> bool {
        let processing = self.processing.remove(item);
        let processing = processing.expect("an item that is done was processing");
        self.counters
            .work_duration
            .observe(now.duration_since(processing.since).as_secs_f64());
        let Some(dirty) = self.dirty.get_mut(item) else {
            return false;
        };
        dirty.position = Some(self.ready.push(item.clone(), dirty.priority, now));
        true
    }

    /// Counts a failure of the item and returns its delay.
    pub(crate) fn next_delay(&mut self, item: &K, now: Timestamp) -> std::time::Duration {
        self.counters.retries += 1;
        self.rate_limiter.next_delay(item, now)
    }

    pub(crate) fn forget(&mut self, item: &K) {
        self.rate_limiter.forget(item);
    }

    pub(crate) fn failures(&self, item: &K) -> u32 {
        self.rate_limiter.failures(item)
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

    pub(crate) fn processing(&self) -> Vec<K> {
        let mut items: Vec<K> = self.processing.keys().cloned().collect();
        items.sort_unstable();
        items
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.is_idle() || self.stage == Stage::ShutDown
    }

    /// True if the caller runs the timer from now on.
    pub(crate) fn claim_timer(&mut self) -> bool {
        !std::mem::replace(&mut self.has_timer, true)
    }

    pub(crate) fn release_timer(&mut self) {
        self.has_timer = false;
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
            assert!(ready.contains(item) == dirty.position.is_some());
        }
    }
}
