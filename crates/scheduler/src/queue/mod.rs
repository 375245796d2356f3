//! The pods that wait for a node, in three places: ready to be tried, waiting out a backoff, parked until something
//! changes that may help.
//!
//! The queue knows no clock: whoever calls says what time it is.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use setpoint_api::Key;

use crate::pod_info::PodInfo;

/// The wait after the first failed attempt; it doubles with each.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// A parked pod is tried again after this, whatever happens.
const LONGEST_PARKING: Duration = Duration::from_secs(300);

/// Pods that wait for a node, each in exactly one place.
#[derive(Debug, Default)]
pub struct Queue {
    entries: HashMap<Key, Entry>,
    /// Exactly the entries in [`Place::Ready`], the most important and then the oldest first.
    ready: BTreeSet<(Reverse<i32>, u64, Key)>,
    /// Exactly the entries in [`Place::Waiting`] and [`Place::Parked`], by the time they become ready by themselves.
    timed: BTreeSet<(Timestamp, Key)>,
    arrivals: u64,
}

#[derive(Debug)]
struct Entry {
    pod: PodInfo,
    attempts: u32,
    arrival: u64,
    place: Place,
}

/// Where a pod is in its wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It can be tried now.
    Ready,
    /// An attempt failed; it becomes ready at that time.
    Waiting(Timestamp),
    /// No node would do. It becomes ready when something changes, but not before `backoff`; at the latest at `until`.
    Parked { backoff: Timestamp, until: Timestamp },
    /// It was handed out: its binding is under way.
    Taken,
}

impl Queue {
    /// Takes in a pod that waits for a node, or what became of it. A pod that changed is worth another try.
    pub fn set(&mut self, pod: PodInfo) {
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
        if entry.place == Place::Taken {
            entry.pod = pod;
            return;
        }
        let key = pod.key.clone();
        self.unlink(&key);
        let entry = self.entries.get_mut(&key).expect("it was there a line ago");
        (entry.pod, entry.place) = (pod, Place::Taken);
        self.put(&key, Place::Ready);
    }

    /// The pod waits no more: it has a node or is gone.
    pub fn remove(&mut self, key: &Key) {
        self.unlink(key);
        self.entries.remove(key);
    }

    /// The next pod to try.
    pub fn pop(&mut self) -> Option<PodInfo> {
        let (_, _, key) = self.ready.pop_first()?;
        let entry = self.entries.get_mut(&key).expect("a ready pod has an entry");
        entry.place = Place::Taken;
        entry.attempts += 1;
        Some(entry.pod.clone())
    }

    /// No node would do for a pod that was handed out.
    pub fn park(&mut self, key: &Key, now: Timestamp) {
        let Some(entry) = self.entries.get(key) else {
            return;
        };
        let place = Place::Parked {
            backoff: later(now, backoff(entry.attempts)),
            until: later(now, LONGEST_PARKING),
        };
        self.put(key, place);
    }

    /// The attempt failed for another reason than the lack of a node.
    pub fn retry(&mut self, key: &Key, now: Timestamp) {
        if let Some(entry) = self.entries.get(key) {
            let place = Place::Waiting(later(now, backoff(entry.attempts)));
            self.put(key, place);
        }
    }

    /// Something changed that may help: parked pods are tried again, once their backoff is over.
    pub fn wake(&mut self, now: Timestamp) {
        let parked: Vec<(Key, Timestamp)> = self
            .timed
            .iter()
            .filter_map(|(_, key)| match self.entries[key].place {
                Place::Parked { backoff, .. } => Some((key.clone(), backoff)),
                _ => None,
            })
            .collect();
        for (key, backoff) in parked {
            let place = match backoff <= now {
                true => Place::Ready,
                false => Place::Waiting(backoff),
            };
            self.put(&key, place);
        }
    }

    /// Makes ready what has waited long enough.
    pub fn advance(&mut self, now: Timestamp) {
        while let Some((due, key)) = self.timed.first() {
            if *due > now {
                break;
            }
            let key = key.clone();
            self.put(&key, Place::Ready);
        }
    }

    /// When the next pod becomes ready by itself.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timed.first().map(|(due, _)| *due)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn insert(&mut self, pod: PodInfo) {
        self.arrivals += 1;
        let key = pod.key.clone();
        let entry = Entry {
            pod,
            attempts: 0,
            arrival: self.arrivals,
            place: Place::Taken,
        };
        self.entries.insert(key.clone(), entry);
        self.put(&key, Place::Ready);
    }

    fn put(&mut self, key: &Key, place: Place) {
        self.unlink(key);
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.place = place;
        match place {
            Place::Ready => drop(self.ready.insert((
                Reverse(entry.pod.priority),
                entry.arrival,
                key.clone(),
            ))),
            Place::Waiting(due) | Place::Parked { until: due, .. } => {
                self.timed.insert((due, key.clone()));
            }
            Place::Taken => {}
        }
    }

    /// Takes the key out of the orders, before its entry is moved or removed.
    fn unlink(&mut self, key: &Key) {
        let Some(entry) = self.entries.get(key) else {
            return;
        };
        match entry.place {
            Place::Ready => {
                let order = (Reverse(entry.pod.priority), entry.arrival, key.clone());
                self.ready.remove(&order);
            }
            Place::Waiting(due) | Place::Parked { until: due, .. } => {
                self.timed.remove(&(due, key.clone()));
            }
            Place::Taken => {}
        }
    }
}

fn backoff(attempts: u32) -> Duration {
    let doublings = attempts.saturating_sub(1).min(16);
    FIRST_BACKOFF.saturating_mul(1 << doublings).min(LONGEST_BACKOFF)
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    now.saturating_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
