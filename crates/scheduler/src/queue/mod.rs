//! [`Queue`]: the pods that wait for a node, as upstream's scheduling queue: active (to be tried now), in backoff,
//! unschedulable until a cluster event may help, or gated.
//!
//! An event wakes only the pods that it can help: those that a plugin rejected which registered the event, if the plugin's
//! queueing hint agrees. The queue has no clock: the caller passes the current time.

mod backoff;
mod cluster_events;
mod entry;
mod in_flight;
mod transitions;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use setpoint_api::{Key, ResourceVersion};

pub use backoff::BackoffConfig;
use backoff::later;
use entry::{Entry, QueueState};
use in_flight::InFlightEvents;

use crate::cycle::Diagnosis;
use crate::framework::{ClusterEvent, EventLabel, EventResource, Profiles, QueueingHint};
use crate::metrics::EventMetrics;
use crate::pod_info::PodInfo;
use crate::state_change::target_pod_actions;

/// An unschedulable pod is tried again after this, even without an event.
const MAX_UNSCHEDULABLE_WAIT: Duration = Duration::from_secs(300);

/// Pods that wait for a node, each in exactly one [`QueueState`].
#[derive(Debug)]
pub struct Queue {
    profiles: Arc<Profiles>,
    backoff_config: BackoffConfig,
    entries: HashMap<Key, Entry>,
    /// Exactly the entries in [`QueueState::Active`], by sort key, then by arrival.
    active: BTreeSet<(i64, u64, Key)>,
    /// Exactly the entries that wait for a time, by that time.
    timed: BTreeSet<(Timestamp, Key)>,
    /// The pods in backoff after they were unschedulable: tried early if nothing else is to do.
    backoff: BTreeSet<(Timestamp, Key)>,
    /// The unschedulable and gated pods by each plugin that rejected them.
    rejected_by: HashMap<&'static str, HashSet<Key>>,
    in_flight: InFlightEvents,
    arrivals: u64,
    /// The number of entries in [`QueueState::Unschedulable`].
    unschedulable: usize,
    /// The number of entries in [`QueueState::Gated`].
    gated: usize,
    metrics: Arc<EventMetrics>,
}

/// A pod that was popped.
#[derive(Debug, Clone)]
pub struct QueuedPod {
    pub pod: Arc<PodInfo>,
    /// Including this one.
    pub attempts: u32,
    pub first_attempt: Timestamp,
}

/// The number of pods by state, as `scheduler_pending_pods` has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounts {
    pub active: usize,
    pub backoff: usize,
    pub unschedulable: usize,
    pub gated: usize,
}

impl Queue {
    pub fn new(profiles: Arc<Profiles>, backoff_config: BackoffConfig) -> Self {
        Self {
            profiles,
            backoff_config,
            entries: HashMap::new(),
            active: BTreeSet::new(),
            timed: BTreeSet::new(),
            backoff: BTreeSet::new(),
            rejected_by: HashMap::new(),
            in_flight: InFlightEvents::default(),
            arrivals: 0,
            unschedulable: 0,
            gated: 0,
            metrics: Arc::default(),
        }
    }

    /// The same empty queue with these metrics.
    pub(crate) fn with_metrics(self, metrics: Arc<EventMetrics>) -> Self {
        metrics.reset_unschedulable();
        Self { metrics, ..self }
    }

    /// Adds a pod that waits for a node, or updates it. An unschedulable pod becomes active if the change may help.
    pub fn update(&mut self, pod: Arc<PodInfo>, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(&pod.key) else {
            return self.insert(pod);
        };
        if entry.pod.uid != pod.uid {
            self.remove(&pod.key);
            return self.insert(pod);
        }
        let key = pod.key.clone();
        let state = entry.state;
        let old = entry.pod.clone();
        if state == QueueState::Active {
            self.unlink(&key);
            self.set_pod(&key, pod);
            return self.put(&key, QueueState::Active);
        }
        self.set_pod(&key, pod.clone());
        match state {
            QueueState::Gated => {
                let action = target_pod_actions(&old, &pod);
                self.activate(&key, ClusterEvent::new(EventResource::TargetPod, action).label());
            }
            QueueState::Unschedulable { .. } | QueueState::InFlight { .. } => {
                self.pod_updated(&key, old, pod, now)
            }
            QueueState::Active | QueueState::Backoff { .. } => {}
        }
    }

    /// Removes a pod that has a node or was deleted.
    pub fn remove(&mut self, key: &Key) {
        self.unlink(key);
        if let Some(entry) = self.entries.remove(key) {
            let (plugins, profile) = (&entry.unschedulable_plugins, &entry.pod.spec.scheduler);
            self.metrics.count_unschedulable(plugins, profile, -1);
        }
    }

    /// The next pod to try: the first active one, else one in backoff that was unschedulable.
    pub fn pop(&mut self, now: Timestamp) -> Option<QueuedPod> {
        let key = match self.active.first() {
            Some((_, _, key)) => key.clone(),
            None => {
                let key = self.backoff.first()?.1.clone();
                self.metrics.pod_queued("active", EventLabel::POP_FROM_BACKOFF);
                key
            }
        };
        self.unlink(&key);
        let start = self.in_flight.start(key.clone());
        let entry = self.entries.get_mut(&key).expect("a queued pod has an entry");
        entry.state = QueueState::InFlight { start };
        entry.attempts += 1;
        let plugins = std::mem::take(&mut entry.unschedulable_plugins);
        self.metrics
            .count_unschedulable(&plugins, &entry.pod.spec.scheduler, -1);
        Some(QueuedPod {
            pod: entry.pod.clone(),
            attempts: entry.attempts,
            first_attempt: *entry.first_attempt.get_or_insert(now),
        })
    }

    /// The number of pods that can be tried now.
    pub fn ready(&self) -> usize {
        match self.active.len() {
            0 => self.backoff.len(),
            active => active,
        }
    }

    /// Returns a popped pod for which no node fits. If an event since its start may help, or may have been missed since
    /// [`Self::done`], it is tried again.
    pub fn add_unschedulable(&mut self, key: &Key, diagnosis: &Diagnosis, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let QueueState::InFlight { start } = entry.state else {
            return;
        };
        entry
            .unschedulable_plugins
            .clone_from(&diagnosis.unschedulable_plugins);
        entry.pending_plugins.clone_from(&diagnosis.pending_plugins);
        let (plugins, profile) = (&entry.unschedulable_plugins, &entry.pod.spec.scheduler);
        self.metrics.count_unschedulable(plugins, profile, 1);
        if entry.unschedulable_plugins.is_empty() {
            return self.retry(key, now);
        }
        entry.unschedulable_count += 1;
        entry.error_count = 0;
        entry.since = now;
        let entry = &self.entries[key];
        let may_help = self.in_flight.since(start).is_none_or(|mut events| {
            events.any(|(event, change)| self.hint(entry, *event, change) == QueueingHint::Queue)
        });
        self.unlink(key);
        match may_help {
            true => self.move_to_backoff(key, now, EventLabel::SCHEDULE_ATTEMPT_FAILURE),
            false => self.put_unschedulable(key, now),
        }
    }

    /// Puts a popped pod into backoff: its attempt failed for another reason than the lack of a node.
    pub fn retry(&mut self, key: &Key, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.error_count += 1;
        entry.since = now;
        let until = later(now, self.backoff_config.duration(entry.error_count));
        self.unlink(key);
        let is_error = true;
        self.enqueue(
            key,
            QueueState::Backoff { until, is_error },
            EventLabel::SCHEDULE_ATTEMPT_FAILURE,
        );
    }

    /// Returns a popped pod whose plan or binding lost a race: it is tried at once if it has changed since that version, else
    /// after a backoff. If it is bound or deleted, its next change removes it.
    pub fn requeue(&mut self, key: &Key, tried: ResourceVersion, now: Timestamp) {
        match self.find(key).is_some_and(|pod| pod.resource_version > tried) {
            true => self.requeue_active(key),
            false => self.retry(key, now),
        }
    }

    /// Returns a popped pod whose binding conflicted with that of another scheduler: it is tried again once that one was
    /// seen and [`Self::end_backoff`] is called, at the latest after a short backoff.
    pub fn wait_for_changes(&mut self, key: &Key, now: Timestamp) {
        let until = later(now, self.backoff_config.duration(1));
        self.unlink(key);
        let state = QueueState::Backoff {
            until,
            is_error: true,
        };
        self.enqueue(key, state, EventLabel::SCHEDULE_ATTEMPT_FAILURE);
    }

    /// Makes a pod in backoff active.
    pub fn end_backoff(&mut self, key: &Key) {
        let state = self.entries.get(key).map(|entry| entry.state);
        if matches!(state, Some(QueueState::Backoff { .. })) {
            self.unlink(key);
            self.activate(key, EventLabel::BACKOFF_COMPLETE);
        }
    }

    /// Tries an unschedulable pod again after its backoff: what a plugin did for it failed.
    pub fn wake(&mut self, key: &Key, uid: &str, now: Timestamp) {
        let entry = self.entries.get(key).filter(|entry| entry.pod.uid == uid);
        if entry.is_some_and(|entry| matches!(entry.state, QueueState::Unschedulable { .. })) {
            self.unlink(key);
            self.move_to_backoff(key, now, EventLabel::FORCE_ACTIVATE);
        }
    }

    /// Returns a popped pod to be tried again at once.
    pub fn requeue_active(&mut self, key: &Key) {
        self.unlink(key);
        self.activate(key, EventLabel::SCHEDULE_ATTEMPT_FAILURE);
    }

    /// The newest version of a queued pod.
    pub fn find(&self, key: &Key) -> Option<&Arc<PodInfo>> {
        self.entries.get(key).map(|entry| &entry.pod)
    }

    /// Forgets the events of a popped pod: its binding is not expected to make it unschedulable.
    pub fn done(&mut self, key: &Key) {
        if let Some(QueueState::InFlight { start }) = self.entries.get(key).map(|entry| entry.state) {
            self.in_flight.end(start, key.clone());
        }
    }

    /// Makes the pods active whose wait is over.
    pub fn flush_due(&mut self, now: Timestamp) {
        while let Some((due, key)) = self.timed.first() {
            if *due > now {
                break;
            }
            let key = key.clone();
            let event = match self.entries[&key].state {
                QueueState::Unschedulable { .. } => EventLabel::UNSCHEDULABLE_TIMEOUT,
                _ => EventLabel::BACKOFF_COMPLETE,
            };
            self.unlink(&key);
            self.activate(&key, event);
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

    pub fn contains(&self, key: &Key, uid: &str) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.pod.uid == uid)
    }

    pub fn counts(&self) -> QueueCounts {
        QueueCounts {
            active: self.active.len(),
            backoff: self.timed.len() - self.unschedulable,
            unschedulable: self.unschedulable,
            gated: self.gated,
        }
    }

    /// The number of events that are kept for pods in flight, by name.
    pub(crate) fn in_flight_events(&self) -> &BTreeMap<EventLabel, usize> {
        self.in_flight.counts()
    }

    fn insert(&mut self, pod: Arc<PodInfo>) {
        self.arrivals += 1;
        let key = pod.key.clone();
        self.entries.insert(key.clone(), Entry::new(pod, self.arrivals));
        self.activate(&key, EventLabel::UNSCHEDULED_POD_ADD);
    }

    fn set_pod(&mut self, key: &Key, pod: Arc<PodInfo>) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.pod = pod;
        }
    }
}

#[cfg(test)]
mod tests;
