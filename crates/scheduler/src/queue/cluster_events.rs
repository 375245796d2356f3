//! Cluster events: which of the pods that wait may become schedulable by one.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use setpoint_api::Key;

use super::Queue;
use super::entry::{Entry, QueueState};
use crate::extender::EXTENDER;
use crate::framework::{ClusterEvent, EventChange, EventResource, QueueingHint};
use crate::pod_info::PodInfo;
use crate::state_change::target_pod_actions;

impl Queue {
    /// Handles a cluster event: pods that it may help become active, or go into backoff until theirs is over.
    pub fn move_all(&mut self, event: ClusterEvent, change: &EventChange, now: Timestamp) {
        let mut plugins = self.profiles.plugins_for(event).peekable();
        if plugins.peek().is_none() {
            return;
        }
        self.in_flight.record(event, change);
        let sets: Vec<&HashSet<Key>> = plugins
            .filter_map(|plugin| self.rejected_by.get(plugin))
            .filter(|keys| !keys.is_empty())
            .collect();
        let mut helped: Vec<Key> = Vec::new();
        for (position, keys) in sets.iter().enumerate() {
            // A pod that several plugins rejected is looked at once.
            let first = keys
                .iter()
                .filter(|key| !sets[..position].iter().any(|earlier| earlier.contains(*key)));
            let may_help = |key: &&Key| self.hint(&self.entries[*key], event, change) == QueueingHint::Queue;
            helped.extend(first.filter(may_help).cloned());
        }
        for key in helped {
            self.unlink(&key);
            self.move_to_backoff(&key, now, event.label());
        }
    }

    /// Handles an update of an unschedulable pod, or of one in flight.
    pub(super) fn pod_updated(&mut self, key: &Key, old: Arc<PodInfo>, new: Arc<PodInfo>, now: Timestamp) {
        let action = target_pod_actions(&old, &new);
        if action.is_empty() {
            return;
        }
        let event = ClusterEvent::new(EventResource::TargetPod, action);
        let change = EventChange::Pod {
            old: Some(old),
            new: Some(new),
        };
        match self.entries[key].state {
            QueueState::InFlight { .. } => self.in_flight.record(event, &change),
            _ if self.hint(&self.entries[key], event, &change) == QueueingHint::Queue => {
                self.unlink(key);
                self.move_to_backoff(key, now, event.label());
            }
            _ => {}
        }
    }

    /// Whether the event may make the pod schedulable: any plugin that rejected it and registered the event agrees.
    pub(super) fn hint(&self, entry: &Entry, event: ClusterEvent, change: &EventChange) -> QueueingHint {
        if event.resource == EventResource::TargetPod
            && !matches!(change, EventChange::Pod { new: Some(new), .. } if new.key == entry.pod.key)
        {
            return QueueingHint::Skip;
        }
        // A pod that leaves its node, since its binding failed, does not help itself.
        if matches!(change, EventChange::Pod { old: Some(old), new: None } if old.uid == entry.pod.uid) {
            return QueueingHint::Skip;
        }
        let Some(profile) = self.profiles.find(&entry.pod.spec.scheduler) else {
            return QueueingHint::Skip;
        };
        if entry.unschedulable_plugins.contains(EXTENDER) {
            return QueueingHint::Queue;
        }
        let mut plugins = profile.enqueue.iter();
        let helps = plugins.any(|plugin| {
            entry.unschedulable_plugins.contains(plugin.name())
                && self.profiles.is_registered(plugin.name(), event)
                && self.metrics.timed_hint(plugin.name(), event.label(), || {
                    plugin.queueing_hint(&entry.pod, event, change)
                }) == QueueingHint::Queue
        });
        QueueingHint::queue_if(helps)
    }
}
