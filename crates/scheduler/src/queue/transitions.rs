//! Moves of pods between the states, each of which keeps the sets of the queue in agreement with the entries.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use setpoint_api::Key;

use super::backoff::later;
use super::entry::{Entry, QueueState};
use super::{MAX_UNSCHEDULABLE_WAIT, Queue};
use crate::framework::{Code, EventLabel, Profiles};
use crate::metrics::{ExtensionPoint, StatusCode};
use crate::pod_info::PodInfo;

impl Queue {
    /// Activates a pod once its backoff is over; at once if it waited for something outside.
    pub(super) fn move_to_backoff(&mut self, key: &Key, now: Timestamp, event: EventLabel) {
        let Some(entry) = self.entries.get(key) else {
            return;
        };
        let until = later(
            entry.since,
            self.backoff_config.duration(entry.unschedulable_count),
        );
        match until <= now || !entry.pending_plugins.is_empty() {
            true => self.activate(key, event),
            false => {
                let is_error = false;
                self.enqueue(key, QueueState::Backoff { until, is_error }, event);
            }
        }
    }

    /// Makes an unlinked pod active, unless a PreEnqueue plugin holds it back.
    pub(super) fn activate(&mut self, key: &Key, event: EventLabel) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let gate = find_gate(&self.profiles, &entry.pod);
        if let Some(plugin) = gate
            && entry.unschedulable_plugins.insert(plugin)
        {
            let profile = &entry.pod.spec.scheduler;
            self.metrics.count_unschedulable([&plugin], profile, 1);
        }
        self.unlink(key);
        let state = match gate {
            Some(_) => QueueState::Gated,
            None => QueueState::Active,
        };
        self.enqueue(key, state, event);
    }

    pub(super) fn put_unschedulable(&mut self, key: &Key, now: Timestamp) {
        let until = later(now, MAX_UNSCHEDULABLE_WAIT);
        let event = EventLabel::SCHEDULE_ATTEMPT_FAILURE;
        self.enqueue(key, QueueState::Unschedulable { until }, event);
    }

    /// Puts an unlinked entry into a state, and counts that.
    pub(super) fn enqueue(&mut self, key: &Key, state: QueueState, event: EventLabel) {
        if let Some(queue) = state.queue() {
            self.metrics.pod_queued(queue, event);
        }
        self.put(key, state);
    }

    /// Puts an unlinked entry into a state.
    pub(super) fn put(&mut self, key: &Key, state: QueueState) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.state = state;
        match state {
            QueueState::Active => {
                let order = (sort_key(&self.profiles, &entry.pod), entry.arrival, key.clone());
                self.active.insert(order);
            }
            QueueState::Backoff { until, is_error } => {
                self.timed.insert((until, key.clone()));
                if !is_error {
                    self.backoff.insert((until, key.clone()));
                }
            }
            QueueState::Unschedulable { until } => {
                self.unschedulable += 1;
                self.timed.insert((until, key.clone()));
                link_plugins(&mut self.rejected_by, entry, key);
            }
            QueueState::Gated => {
                self.gated += 1;
                link_plugins(&mut self.rejected_by, entry, key);
            }
            QueueState::InFlight { .. } => {}
        }
    }

    /// Takes the key out of the sets of its state, before the entry is moved or removed.
    pub(super) fn unlink(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        match entry.state {
            QueueState::Active => {
                let order = (sort_key(&self.profiles, &entry.pod), entry.arrival, key.clone());
                self.active.remove(&order);
            }
            QueueState::Backoff { until, .. } => {
                self.timed.remove(&(until, key.clone()));
                self.backoff.remove(&(until, key.clone()));
            }
            QueueState::Unschedulable { until } => {
                self.unschedulable -= 1;
                self.timed.remove(&(until, key.clone()));
                unlink_plugins(&mut self.rejected_by, entry, key);
            }
            QueueState::Gated => {
                self.gated -= 1;
                unlink_plugins(&mut self.rejected_by, entry, key);
            }
            QueueState::InFlight { start } => self.in_flight.end(start, key.clone()),
        }
        entry.state = QueueState::InFlight { start: u64::MAX };
    }
}

fn link_plugins(rejected_by: &mut HashMap<&'static str, HashSet<Key>>, entry: &Entry, key: &Key) {
    for plugin in &entry.unschedulable_plugins {
        rejected_by.entry(plugin).or_default().insert(key.clone());
    }
}

fn unlink_plugins(rejected_by: &mut HashMap<&'static str, HashSet<Key>>, entry: &Entry, key: &Key) {
    for plugin in &entry.unschedulable_plugins {
        rejected_by.get_mut(plugin).map(|keys| keys.remove(key));
    }
}

/// The PreEnqueue plugin that holds the pod back.
fn find_gate(profiles: &Profiles, pod: &PodInfo) -> Option<&'static str> {
    let profile = profiles.find(&pod.spec.scheduler)?;
    let status = |gate: &Option<_>| match gate {
        Some(_) => StatusCode::Rejected(Code::UnschedulableAndUnresolvable),
        None => StatusCode::Success,
    };
    profile.recorder.timed(ExtensionPoint::PreEnqueue, status, || {
        let mut plugins = profile.pre_enqueue.iter();
        let gate = plugins.find(|plugin| plugin.pre_enqueue(pod).is_err());
        gate.map(|plugin| plugin.name())
    })
}

fn sort_key(profiles: &Profiles, pod: &PodInfo) -> i64 {
    let profile = profiles.find(&pod.spec.scheduler);
    let sort = profile.and_then(|profile| profile.queue_sort.as_ref());
    sort.map_or(0, |sort| sort.sort_key(pod))
}
