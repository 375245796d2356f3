//! Changes of the caches, applied to the shared state and the queue.

use std::sync::Arc;

use setpoint_api::{Change, Key, ResourceVersion, Stored};

use super::Scheduler;
use super::cluster_events::{ObjectChanges, read_namespaces};
use crate::framework::{ActionType, ClusterEvent, EventChange, EventLabel, EventResource};
use crate::pod_info::PodInfo;
use crate::state::NodeChange;
use crate::state_change::{assigned_pod_actions, node_actions};

impl Scheduler {
    /// Applies changes of pods, after which all of them up to a version are counted.
    pub(super) fn pods_changed(&mut self, changes: &[Change], version: ResourceVersion) {
        let metrics = self.planner.metrics.events.clone();
        for change in changes {
            let began = metrics.start();
            let event = match change {
                Change::Deleted { last, .. } => self.pod_deleted(last.key()),
                Change::Modified { old, new } => self.update_pod(Some(old), new),
                Change::Added(new) => self.update_pod(None, new),
            };
            metrics.handled(event, began);
        }
        self.planner.cluster.write().set_observed(version);
        for key in std::mem::take(&mut self.conflicted) {
            self.queue.end_backoff(&key);
        }
    }

    pub(super) fn nodes_changed(&mut self, changes: &[Change]) {
        let metrics = self.planner.metrics.events.clone();
        for change in changes {
            let began = metrics.start();
            let change = match change.is_deletion() {
                true => self.planner.cluster.write().remove_node(change.key().name()),
                false => self.planner.cluster.write().set_node(change.object()),
            };
            if let Some(change) = change {
                let event = self.node_changed(change);
                metrics.handled(event.label(), began);
            }
        }
    }

    pub(super) fn objects_changed(&mut self, changes: &ObjectChanges) {
        let resource = changes.resource;
        let Some(changes) = &changes.changes else {
            if resource == EventResource::Namespace {
                read_namespaces(&self.context, &mut self.planner.cluster.write());
            }
            let change = EventChange::Object { old: None, new: None };
            return self.move_all(resource, ActionType::ALL, &change);
        };
        let metrics = self.planner.metrics.events.clone();
        for change in changes {
            let began = metrics.start();
            if resource == EventResource::Namespace {
                let labels = (!change.is_deletion()).then(|| change.object().header().labels.clone());
                self.planner
                    .cluster
                    .write()
                    .set_namespace(change.key().name(), labels);
            }
            let (action, old, new) = match change {
                Change::Added(new) => (ActionType::ADD, None, Some(new.clone())),
                Change::Modified { old, new } => (ActionType::UPDATE, Some(old.clone()), Some(new.clone())),
                Change::Deleted { last, .. } => (ActionType::DELETE, Some(last.clone()), None),
            };
            self.move_all(resource, action, &EventChange::Object { old, new });
            metrics.handled(ClusterEvent::new(resource, action).label(), began);
        }
    }

    /// Applies a pod as it is now. Returns the event that this is.
    pub(super) fn update_pod(&mut self, old: Option<&Arc<Stored>>, object: &Arc<Stored>) -> EventLabel {
        let assigned = |action| ClusterEvent::new(EventResource::AssignedPod, action).label();
        if old.is_some_and(|old| self.is_irrelevant(old, object)) {
            return assigned(ActionType::UPDATE);
        }
        if old.is_some_and(|old| self.planner.cluster.write().confirm(old, object)) {
            self.queue.remove(object.key());
            self.assigned_pod_added(object.key());
            return assigned(ActionType::ADD);
        }
        let is_new = old.is_none();
        let Some(pod) = PodInfo::read(object, &mut self.interner).map(Arc::new) else {
            return assigned(ActionType::UPDATE);
        };
        match pod.needs_scheduling() {
            true => {
                self.unscheduled_pod_changed(pod);
                match is_new {
                    true => EventLabel::UNSCHEDULED_POD_ADD,
                    false => EventLabel::UNSCHEDULED_POD_UPDATE,
                }
            }
            false => assigned(self.assigned_pod_changed(pod)),
        }
    }

    fn unscheduled_pod_changed(&mut self, pod: Arc<PodInfo>) {
        if self.planner.profiles.find(&pod.spec.scheduler).is_none() {
            return;
        }
        self.remove_replaced(&pod);
        let is_assumed = self.planner.cluster.read().contains(&pod.key, &pod.uid);
        if !is_assumed {
            self.note_nomination(&pod);
        }
        // A pod that is assumed and no longer queued is bound; this version of it is older than that. One that is still
        // queued is being bound, and if its binding fails it is tried again with this version.
        if !is_assumed || self.queue.contains(&pod.key, &pod.uid) {
            let now = self.now();
            self.queue.update(pod, now);
        }
    }

    /// Removes an earlier pod of the same name from its node, if its deletion was not reported by itself.
    fn remove_replaced(&mut self, pod: &PodInfo) {
        let is_other = |old: &Arc<PodInfo>| old.uid != pod.uid;
        if self
            .planner
            .cluster
            .read()
            .find_pod(&pod.key)
            .is_some_and(is_other)
        {
            self.pod_deleted(&pod.key);
        }
    }

    /// Counts the pod on the node that its status nominates. A nomination that is gone from the status is given up; one that
    /// was never there is kept, since it may not be written yet.
    fn note_nomination(&self, pod: &Arc<PodInfo>) {
        let queued = self.queue.find(&pod.key).filter(|old| old.uid == pod.uid);
        let before = queued.map(|old| old.nominated_node.clone()).unwrap_or_default();
        if before.is_empty() && pod.nominated_node.is_empty() {
            return;
        }
        let mut cluster = self.planner.cluster.write();
        let known = cluster.nominated().node_of(&pod.key);
        match pod.nominated_node.is_empty() {
            true if known == Some(&before) => cluster.remove_nomination(&pod.key),
            false if known != Some(&pod.nominated_node) => cluster.nominate(pod.clone(), &pod.nominated_node),
            _ => {}
        }
    }

    /// Counts a pod on its node. Returns the action that this is.
    fn assigned_pod_changed(&mut self, pod: Arc<PodInfo>) -> ActionType {
        self.queue.remove(&pod.key);
        let (old, uses_node) = {
            let mut cluster = self.planner.cluster.write();
            cluster.remove_nomination(&pod.key);
            let was_assumed = cluster.is_assumed(&pod.key, &pod.uid);
            let (old, uses_node) = (cluster.set_pod(pod.clone()), pod.uses_node());
            // A pod that was assumed and is bound now is new on its node.
            (old.filter(|_| !(was_assumed && uses_node)), uses_node)
        };
        let (action, new) = match (&old, uses_node) {
            (None, false) => return ActionType::UPDATE,
            (None, true) => (ActionType::ADD, Some(pod)),
            (Some(_), false) => (ActionType::DELETE, None),
            (Some(old), true) => (assigned_pod_actions(old, &pod), Some(pod)),
        };
        self.move_all(EventResource::AssignedPod, action, &EventChange::Pod { old, new });
        action
    }

    /// Handles the event of a pod that was assumed and is bound now.
    fn assigned_pod_added(&mut self, key: &Key) {
        let new = self.planner.cluster.read().find_pod(key).cloned();
        let change = EventChange::Pod { old: None, new };
        self.move_all(EventResource::AssignedPod, ActionType::ADD, &change);
    }

    pub(super) fn pod_deleted(&mut self, key: &Key) -> EventLabel {
        self.queue.remove(key);
        let removed = {
            let mut cluster = self.planner.cluster.write();
            cluster.remove_nomination(key);
            cluster.remove_pod(key)
        };
        let Some(old) = removed else {
            return EventLabel::UNSCHEDULED_POD_DELETE;
        };
        self.reject_waiting(&old.uid);
        self.pod_removed(old);
        ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE).label()
    }

    /// Ends the wait of a deleted pod for a permission.
    pub(super) fn reject_waiting(&self, uid: &str) {
        for profile in self.planner.profiles.iter() {
            if let Some(waiting) = profile.waiting_pods.find(uid) {
                waiting.reject("", "removed");
            }
        }
    }

    pub(super) fn pod_removed(&mut self, old: Arc<PodInfo>) {
        let change = EventChange::Pod {
            old: Some(old),
            new: None,
        };
        self.move_all(EventResource::AssignedPod, ActionType::DELETE, &change);
    }

    fn node_changed(&mut self, change: NodeChange) -> ClusterEvent {
        let action = node_actions(&change);
        self.move_all(EventResource::Node, action, &EventChange::Node(change));
        ClusterEvent::new(EventResource::Node, action)
    }

    fn move_all(&mut self, resource: EventResource, action: ActionType, change: &EventChange) {
        if !action.is_empty() {
            let now = self.now();
            self.queue
                .move_all(ClusterEvent::new(resource, action), change, now);
        }
    }

    /// Whether the headers alone show that nothing relevant to scheduling changed in a pod on a node. Most changes are like
    /// this, and their objects need not be decoded.
    fn is_irrelevant(&self, old: &Stored, new: &Stored) -> bool {
        let same_field = |label: &str| new.field(label).is_some() && new.field(label) == old.field(label);
        let (before, after) = (old.header(), new.header());
        new.field("spec.nodeName").is_some_and(|node| !node.is_empty())
            && before.uid == after.uid
            && after.generation > 0
            && before.generation == after.generation
            && before.deleting == after.deleting
            && before.labels == after.labels
            && same_field("spec.nodeName")
            && same_field("status.phase")
            && !self.is_resizing(new.key())
    }

    /// Whether the node has not yet confirmed the pod's new requests: then its status matters.
    fn is_resizing(&self, key: &Key) -> bool {
        let cluster = self.planner.cluster.read();
        cluster.find_pod(key).is_some_and(|pod| pod.is_resizing)
    }
}
