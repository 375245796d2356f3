//! The queue without its waiting: plain sets, moved by plain functions.

#[cfg(test)]
use std::collections::HashSet;
use std::collections::{HashMap, VecDeque};

use jiff::Timestamp;

use super::backoff::{Backoff, Limits};
use super::delay::Delays;
use super::metrics::{Counters, Metrics};
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
    ready: VecDeque<K>,
    /// What wants attention, and since when. Each item is in `ready` or in `processing`.
    dirty: HashMap<K, Timestamp>,
    /// What a worker has, and since when.
    processing: HashMap<K, Timestamp>,
    delays: Delays<K>,
    backoff: Backoff<K>,
    counters: Counters,
    /// Whether one of those who wait keeps the time.
    timed: bool,
}

// === impl State ===

impl<K: Item> State<K> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            stage: Stage::Open,
            ready: VecDeque::new(),
            dirty: HashMap::new(),
            processing: HashMap::new(),
            delays: Delays::new(),
            backoff: Backoff::new(limits),
            counters: Counters::default(),
            timed: false,
        }
    }

    /// Whether an item became ready.
    pub(crate) fn add(&mut self, item: K, now: Timestamp) -> bool {
        if self.stage != Stage::Open || self.dirty.contains_key(&item) {
            return false;
        }
        self.counters.adds += 1;
        self.dirty.insert(item.clone(), now);
        if self.processing.contains_key(&item) {
            return false;
        }
        self.ready.push_back(item);
        true
    }

    /// Whether the next item is now due earlier than before.
    pub(crate) fn delay(&mut self, item: K, at: Timestamp) -> bool {
        self.stage == Stage::Open && self.delays.insert(item, at)
    }

    pub(crate) fn take(&mut self, now: Timestamp) -> Option<K> {
        self.wake_due(now);
        let item = self.ready.pop_front()?;
        let since = self.dirty.remove(&item).expect("an item that is ready is dirty");
        self.counters.waited.observe(now.duration_since(since));
        self.processing.insert(item.clone(), now);
        Some(item)
    }

    /// Whether the item is ready once more.
    pub(crate) fn done(&mut self, item: &K, now: Timestamp) -> bool {
        let since = self.processing.remove(item);
        let since = since.expect("an item that is done was processing");
        self.counters.worked.observe(now.duration_since(since));
        let again = self.dirty.contains_key(item);
        if again {
            self.ready.push_back(item.clone());
        }
        again
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
        let running = self.processing.values().map(|since| now.duration_since(*since));
        self.counters.metrics(depth, self.delays.len(), running)
    }

    fn wake_due(&mut self, now: Timestamp) {
        while let Some(item) = self.delays.pop(now) {
            self.add(item, now);
        }
    }
}

/// Panics where the sets disagree.
#[cfg(test)]
impl<K: Item> State<K> {
    pub(crate) fn check(&self) {
        let ready: HashSet<&K> = self.ready.iter().collect();
        assert_eq!(ready.len(), self.ready.len(), "an item is ready once");
        for item in &self.ready {
            assert!(self.dirty.contains_key(item) && !self.processing.contains_key(item));
        }
        for item in self.dirty.keys() {
            assert!(ready.contains(item) != self.processing.contains_key(item));
        }
    }
}
