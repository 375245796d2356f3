//! The handlers of the loop: changes of the caches, and outcomes of workers and bindings.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use setpoint_api::{Change, Key, ResourceVersion, Stored};
use setpoint_runtime::TypedObject;

use super::cluster_events::{ObjectChanges, read_namespaces};
use super::planner::{Attempt, Failure};
use super::{Scheduler, TaskOutcome};
use crate::bind::{AttemptInfo, BindOutcome, BindResult, run_binding_cycle};
use crate::cycle::Diagnosis;
use crate::explain::Decision;
use crate::framework::{
    ActionType, BindRequest, ClusterEvent, CycleState, EventChange, EventLabel, EventResource,
};
use crate::metrics::AttemptResult;
use crate::pod_info::PodInfo;
use crate::queue::QueuedPod;
use crate::report::{FailureReport, write_failure};
use crate::state::NodeChange;
use crate::state_change::{assigned_pod_actions, node_actions};

/// The longest text of an event (upstream: `NoteLengthLimit`).
const MAX_EVENT_TEXT: usize = 1024;

// Changes of the caches.

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

    fn pod_deleted(&mut self, key: &Key) -> EventLabel {
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
    fn reject_waiting(&self, uid: &str) {
        for profile in self.planner.profiles.iter() {
            if let Some(waiting) = profile.waiting_pods.find(uid) {
                waiting.reject("", "removed");
            }
        }
    }

    fn pod_removed(&mut self, old: Arc<PodInfo>) {
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

// Outcomes of tasks.

impl Scheduler {
    pub(super) fn task_finished(&mut self, outcome: TaskOutcome) {
        match outcome {
            TaskOutcome::Planned {
                worker,
                began,
                attempts,
            } => {
                self.idle_workers.push(worker);
                self.planner
                    .metrics
                    .planned(attempts.len(), elapsed(began, self.now()));
                for (queued, attempt) in attempts {
                    self.attempt_ended(&queued, attempt, began);
                }
            }
            TaskOutcome::Bound(outcome) => self.binding_ended(&outcome),
            TaskOutcome::Written => {}
            TaskOutcome::ActionFailed(key, uid) => {
                let now = self.now();
                self.queue.wake(&key, &uid, now);
            }
        }
    }

    fn attempt_ended(&mut self, queued: &QueuedPod, attempt: Attempt, began: Timestamp) {
        let now = self.now();
        let key = &queued.pod.key;
        if !self.queue.contains(key, &queued.pod.uid) {
            return self.attempt_outlived(queued, attempt);
        }
        let result = match attempt {
            Attempt::Assumed {
                pod,
                cycle,
                choice,
                observed,
            } => {
                self.decisions.record(Decision::scheduled(now, &pod, &choice));
                return self.start_binding(queued, pod, cycle, observed);
            }
            Attempt::Superseded => return self.queue.requeue(key, queued.pod.resource_version, now),
            Attempt::Conflicts => return self.queue.requeue_active(key),
            Attempt::Unschedulable(failure) => {
                self.handle_unschedulable(&queued.pod, *failure);
                AttemptResult::Unschedulable
            }
            Attempt::Failed { message, is_rejected } => {
                let reason = if is_rejected {
                    "Unschedulable"
                } else {
                    "SchedulerError"
                };
                self.queue.retry(key, now);
                self.report_failure(&queued.pod, reason, message, Some(String::new()));
                if is_rejected {
                    AttemptResult::Unschedulable
                } else {
                    AttemptResult::Error
                }
            }
        };
        let metrics = &self.planner.metrics;
        metrics.attempt_ended(&queued.pod.spec.scheduler, result, elapsed(began, now));
    }

    /// Handles the attempt of a pod that was deleted, replaced or bound by another scheduler meanwhile. What the worker did for
    /// it came after the change that removed the pod from the queue, and is undone here.
    fn attempt_outlived(&mut self, queued: &QueuedPod, attempt: Attempt) {
        match attempt {
            // Its binding fails, and takes the reservations back.
            Attempt::Assumed {
                pod, cycle, observed, ..
            } => {
                self.reject_waiting(&pod.uid);
                self.start_binding(queued, pod, cycle, observed);
            }
            Attempt::Unschedulable(failure) if failure.nominated_node.is_some() => {
                self.planner.cluster.write().remove_nomination(&queued.pod.key);
            }
            Attempt::Unschedulable(_) | Attempt::Failed { .. } | Attempt::Superseded | Attempt::Conflicts => {
            }
        }
    }

    /// Binds the assumed pod in the background.
    fn start_binding(
        &mut self,
        queued: &QueuedPod,
        pod: Arc<PodInfo>,
        cycle: CycleState,
        observed: ResourceVersion,
    ) {
        let Some(profile) = self.planner.profiles.find(&pod.spec.scheduler).cloned() else {
            return;
        };
        // A Permit plugin that lets the pod wait may still find it unschedulable.
        if self.queue.contains(&pod.key, &pod.uid) && profile.waiting_pods.find(&pod.uid).is_none() {
            self.queue.done(&pod.key);
        }
        let request = BindRequest {
            cycle: Arc::new(cycle),
            node: pod.node.clone(),
            pod,
            observed,
            client: self.context.client.clone(),
            binding_client: self.binding_client.clone(),
            clock: self.context.clock.clone(),
        };
        let info = AttemptInfo {
            attempts: queued.attempts,
            first_attempt: queued.first_attempt,
        };
        self.planner.metrics.bindings.fetch_add(1, Ordering::Relaxed);
        self.in_flight.spawn(async move {
            TaskOutcome::Bound(Box::new(run_binding_cycle(profile, request, info).await))
        });
    }

    /// Returns the pod to the queue, and reports why in an event and in its status.
    fn handle_unschedulable(&mut self, pod: &Arc<PodInfo>, failure: Failure) {
        let now = self.now();
        self.queue.add_unschedulable(&pod.key, &failure.diagnosis, now);
        let decision = Decision::unschedulable(now, pod, &failure, &self.planner.cluster.read());
        self.decisions.record(decision);
        let nominated = failure.nominated_node.map(String::from);
        self.report_failure(pod, "Unschedulable", failure.diagnosis.to_string(), nominated);
        if let Some(action) = failure.action {
            let (context, key, uid) = (self.context.clone(), pod.key.clone(), pod.uid.clone());
            self.in_flight.spawn(async move {
                let Err(status) = (action.0)(context).await else {
                    return TaskOutcome::Written;
                };
                tracing::warn!(pod = %key, %status, "the preparation for the pod failed");
                TaskOutcome::ActionFailed(key, uid)
            });
        }
    }

    fn report_failure(
        &mut self,
        pod: &Arc<PodInfo>,
        reason: &'static str,
        message: String,
        nominated: Option<String>,
    ) {
        let Some(object) = self.pods.find(&pod.key).filter(|object| object.uid() == pod.uid) else {
            return;
        };
        let object: TypedObject<Pod> = TypedObject::new(object);
        let events = self.context.events.for_component(&pod.spec.scheduler);
        events.warning(&object, "FailedScheduling", truncate(&message));
        let report = FailureReport {
            reason,
            message,
            nominated_node: nominated,
        };
        let (client, now, pod) = (self.context.client.clone(), self.now(), pod.clone());
        self.in_flight.spawn(async move {
            write_failure(&client, now, &pod, &report).await;
            TaskOutcome::Written
        });
    }

    fn binding_ended(&mut self, outcome: &BindOutcome) {
        self.planner.metrics.bindings.fetch_sub(1, Ordering::Relaxed);
        let now = self.now();
        let duration = elapsed(outcome.first_attempt, now);
        let result = match &outcome.result {
            BindResult::Bound => {
                if self.queue.contains(&outcome.key, &outcome.uid) {
                    self.queue.remove(&outcome.key);
                }
                self.record_scheduled(outcome);
                self.planner.metrics.pod_bound(outcome.attempts, duration);
                AttemptResult::Scheduled
            }
            BindResult::Superseded => {
                if self.forget(outcome) {
                    self.queue.requeue(&outcome.key, outcome.resource_version, now);
                }
                return;
            }
            BindResult::NodeChanged => {
                self.planner.metrics.conflicts.rejected();
                if self.forget(outcome) {
                    self.queue.wait_for_changes(&outcome.key, now);
                    self.conflicted.push(outcome.key.clone());
                }
                return;
            }
            BindResult::Rejected(rejection) => {
                let diagnosis = rejection.is_rejected().then(|| {
                    let mut diagnosis = Diagnosis::new(1);
                    diagnosis.add_plugin(rejection);
                    diagnosis
                });
                if self.forget(outcome) {
                    self.handle_rejected_binding(outcome, rejection.to_string(), diagnosis);
                }
                AttemptResult::Error
            }
            BindResult::Failed(message) => {
                tracing::warn!(pod = %outcome.key, node = %outcome.node, message, "binding failed");
                if self.forget(outcome) {
                    self.handle_rejected_binding(outcome, message.clone(), None);
                }
                AttemptResult::Error
            }
        };
        self.planner
            .metrics
            .attempt_ended(&outcome.scheduler, result, duration);
    }

    /// Returns the pod to the queue and reports why it is not bound. Its nominated node, which may have been written before
    /// PreBind, is cleared: the next attempt may choose another.
    fn handle_rejected_binding(
        &mut self,
        outcome: &BindOutcome,
        message: String,
        diagnosis: Option<Diagnosis>,
    ) {
        let now = self.now();
        let reason = if diagnosis.is_some() {
            "Unschedulable"
        } else {
            "SchedulerError"
        };
        match diagnosis {
            Some(diagnosis) => self.queue.add_unschedulable(&outcome.key, &diagnosis, now),
            None => self.queue.retry(&outcome.key, now),
        }
        let pod = self.queue.find(&outcome.key).cloned();
        if let Some(pod) = pod.filter(|pod| pod.uid == outcome.uid) {
            self.report_failure(&pod, reason, message, Some(String::new()));
        }
    }

    /// Removes the assumed pod from its node. Returns whether it still waits in the queue.
    fn forget(&mut self, outcome: &BindOutcome) -> bool {
        let removed = {
            let mut cluster = self.planner.cluster.write();
            match cluster.is_assumed(&outcome.key, &outcome.uid) {
                true => cluster.remove_pod(&outcome.key),
                false => None,
            }
        };
        if let Some(old) = removed {
            self.pod_removed(old);
        }
        self.restore_entry(outcome);
        self.queue.contains(&outcome.key, &outcome.uid)
    }

    /// Queues the pod if the queue was built again while it was being bound.
    fn restore_entry(&mut self, outcome: &BindOutcome) {
        let object = self.pods.find(&outcome.key);
        if let Some(object) = object.filter(|object| object.uid() == outcome.uid)
            && self.queue.find(&outcome.key).is_none()
        {
            self.update_pod(None, &object);
        }
    }

    fn record_scheduled(&self, outcome: &BindOutcome) {
        let found = self
            .pods
            .find(&outcome.key)
            .filter(|one| one.uid() == outcome.uid);
        if let Some(object) = found {
            let message = format!("Successfully assigned {} to {}", outcome.key, outcome.node);
            let object: TypedObject<Pod> = TypedObject::new(object);
            let events = self.context.events.for_component(&outcome.scheduler);
            events.normal(&object, "Scheduled", message);
        }
    }
}

fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// The text of an event, cut at the length that the API accepts.
fn truncate(message: &str) -> String {
    if message.len() <= MAX_EVENT_TEXT {
        return message.to_owned();
    }
    let suffix = " ...";
    let end = message.floor_char_boundary(MAX_EVENT_TEXT - suffix.len());
    format!("{}{suffix}", &message[..end])
}

#[cfg(test)]
mod tests;
