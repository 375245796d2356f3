//! [`Queue`]: the pods that wait for a node, as upstream's scheduling queue: active (to be tried now), in backoff, or
//! unschedulable until a cluster event may help.
//!
//! The queue has no clock: the caller passes the current time.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use setpoint_api::Key;

use crate::pod_info::PodInfo;

/// The wait after the first failed attempt; it doubles with each.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// An unschedulable pod is tried again after this, even without an event.
const MAX_UNSCHEDULABLE_WAIT: Duration = Duration::from_secs(300);

/// Pods that wait for a node, each in exactly one [`QueueState`].
#[derive(Debug, Default)]
pub struct Queue {
    entries: HashMap<Key, Entry>,
    /// Exactly the entries in [`QueueState::Active`], highest priority first, then by arrival.
    active: BTreeSet<(Reverse<i32>, u64, Key)>,
    /// Exactly the entries in [`QueueState::Backoff`] and [`QueueState::Unschedulable`], by the time they become active
    /// without an event.
    timed: BTreeSet<(Timestamp, Key)>,
    arrivals: u64,
}

#[derive(Debug)]
struct Entry {
    pod: Arc<PodInfo>,
    attempts: u32,
    arrival: u64,
    state: QueueState,
}

/// The state of a queued pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueueState {
    /// It can be tried now.
    Active,
    /// An attempt failed; it becomes active at that time.
    Backoff(Timestamp),
    /// No node fits. It becomes active on the next cluster event, but not before `backoff`; at the latest at `until`.
    Unschedulable { backoff: Timestamp, until: Timestamp },
    /// It was popped: its scheduling cycle or its binding is in flight.
    InFlight,
}

impl Queue {
    /// Adds a pod that waits for a node, or updates it. A changed pod becomes active at once.
    pub fn update(&mut self, pod: Arc<PodInfo>) {
        let Some(entry) = self.entries.get_mut(&pod.key) else {
            return self.insert(pod);
        };
        if entry.pod.uid != pod.uid {
            self.remove(&pod.key);
            return self.insert(pod);
        }
        if entry.pod == pod {
            return;
        }
        if entry.state == QueueState::InFlight {
            entry.pod = pod;
            return;
        }
        let key = pod.key.clone();
        self.unlink(&key);
        let entry = self.entries.get_mut(&key).expect("it was there a line ago");
        (entry.pod, entry.state) = (pod, QueueState::InFlight);
        self.put(&key, QueueState::Active);
    }

    /// Removes a pod that has a node or was deleted.
    pub fn remove(&mut self, key: &Key) {
        self.unlink(key);
        self.entries.remove(key);
    }

    /// The next active pod.
    pub fn pop(&mut self) -> Option<Arc<PodInfo>> {
        let (_, _, key) = self.active.pop_first()?;
        let entry = self.entries.get_mut(&key).expect("an active pod has an entry");
        entry.state = QueueState::InFlight;
        entry.attempts += 1;
        Some(entry.pod.clone())
    }

    /// Marks a popped pod as unschedulable: no node fits.
    pub fn add_unschedulable(&mut self, key: &Key, now: Timestamp) {
        let Some(entry) = self.entries.get(key) else {
            return;
        };
        let state = QueueState::Unschedulable {
            backoff: later(now, backoff(entry.attempts)),
            until: later(now, MAX_UNSCHEDULABLE_WAIT),
        };
        self.put(key, state);
    }

    /// Puts a popped pod into backoff: its attempt failed for another reason than the lack of a node.
    pub fn retry(&mut self, key: &Key, now: Timestamp) {
        if let Some(entry) = self.entries.get(key) {
            let state = QueueState::Backoff(later(now, backoff(entry.attempts)));
            self.put(key, state);
        }
    }

    /// Handles a cluster event that may help: unschedulable pods become active, or go into backoff until theirs is over.
    pub fn move_to_active_or_backoff(&mut self, now: Timestamp) {
        let unschedulable: Vec<(Key, Timestamp)> = self
            .timed
            .iter()
            .filter_map(|(_, key)| match self.entries[key].state {
                QueueState::Unschedulable { backoff, .. } => Some((key.clone(), backoff)),
                _ => None,
            })
            .collect();
        for (key, backoff) in unschedulable {
            let state = match backoff <= now {
                true => QueueState::Active,
                false => QueueState::Backoff(backoff),
            };
            self.put(&key, state);
        }
    }

    /// Makes the pods active whose wait is over.
    pub fn flush_due(&mut self, now: Timestamp) {
        while let Some((due, key)) = self.timed.first() {
            if *due > now {
                break;
            }
            let key = key.clone();
            self.put(&key, QueueState::Active);
        }
    }

    /// When the next pod becomes active without an event.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timed.first().map(|(due, _)| *due)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn insert(&mut self, pod: Arc<PodInfo>) {
        self.arrivals += 1;
        let key = pod.key.clone();
        let entry = Entry {
            pod,
            attempts: 0,
            arrival: self.arrivals,
            state: QueueState::InFlight,
        };
        self.entries.insert(key.clone(), entry);
        self.put(&key, QueueState::Active);
    }

    fn put(&mut self, key: &Key, state: QueueState) {
        self.unlink(key);
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.state = state;
        match state {
            QueueState::Active => drop(self.active.insert((
                Reverse(entry.pod.priority()),
                entry.arrival,
                key.clone(),
            ))),
            QueueState::Backoff(due) | QueueState::Unschedulable { until: due, .. } => {
                self.timed.insert((due, key.clone()));
            }
            QueueState::InFlight => {}
        }
    }

    /// Takes the key out of `active` and `timed`, before its entry is moved or removed.
    fn unlink(&mut self, key: &Key) {
        let Some(entry) = self.entries.get(key) else {
            return;
        };
        match entry.state {
            QueueState::Active => {
                let order = (Reverse(entry.pod.priority()), entry.arrival, key.clone());
                self.active.remove(&order);
            }
            QueueState::Backoff(due) | QueueState::Unschedulable { until: due, .. } => {
                self.timed.remove(&(due, key.clone()));
            }
            QueueState::InFlight => {}
        }
    }
}

fn backoff(attempts: u32) -> Duration {
    let doublings = attempts.saturating_sub(1).min(16);
    INITIAL_BACKOFF.saturating_mul(1 << doublings).min(MAX_BACKOFF)
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
