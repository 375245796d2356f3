//! Outcomes of workers and bindings: pods are bound or return to the queue, and events and statuses report it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use setpoint_api::ResourceVersion;
use setpoint_runtime::TypedObject;

use super::planner::{Attempt, Failure};
use super::status_writes::StatusWrite;
use super::{Scheduler, TaskOutcome};
use crate::bind::{AttemptInfo, BindOutcome, BindResult, run_binding_cycle};
use crate::cycle::Diagnosis;
use crate::explain::Decision;
use crate::framework::{BindRequest, CycleState};
use crate::metrics::AttemptResult;
use crate::pod_info::PodInfo;
use crate::queue::QueuedPod;
use crate::report::{FailureReport, write_failure};

/// The longest text of an event (upstream: `NoteLengthLimit`).
const MAX_EVENT_TEXT: usize = 1024;

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
            TaskOutcome::StatusWritten(uid) => {
                if let Some(next) = self.status_writes.end(&uid) {
                    self.start_status_write(next);
                }
            }
            TaskOutcome::ActionEnded => {}
            TaskOutcome::ActionFailed(key, uid) => {
                let now = self.now();
                self.queue.wake(&key, &uid, now);
            }
        }
    }

    pub(super) fn attempt_ended(&mut self, queued: &QueuedPod, attempt: Attempt, began: Timestamp) {
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
        let events = self.context.events.for_component(&pod.spec.scheduler);
        let request = BindRequest {
            cycle: Arc::new(cycle),
            node: pod.node.clone(),
            pod,
            observed,
            client: self.context.client.clone(),
            binding_client: self.binding_client.clone(),
            clock: self.context.clock.clone(),
            events,
        };
        let info = AttemptInfo {
            attempts: queued.attempts,
            first_attempt: queued.first_attempt,
        };
        self.planner.metrics.bindings.fetch_add(1, Ordering::Relaxed);
        let reported = self.status_writes.ended(&request.pod.uid);
        self.in_flight.spawn(async move {
            if let Some(reported) = reported {
                reported.await;
            }
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
                    return TaskOutcome::ActionEnded;
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
        let events = events.with_action("Scheduling");
        events.warning(&object, "FailedScheduling", truncate(&message));
        let report = FailureReport {
            reason,
            message,
            nominated_node: nominated,
        };
        let pod = pod.clone();
        if let Some(write) = self.status_writes.begin(StatusWrite { pod, report }) {
            self.start_status_write(write);
        }
    }

    fn start_status_write(&mut self, StatusWrite { pod, report }: StatusWrite) {
        let (client, now) = (self.context.client.clone(), self.now());
        self.in_flight.spawn(async move {
            write_failure(&client, now, &pod, &report).await;
            TaskOutcome::StatusWritten(pod.uid.clone())
        });
    }

    pub(super) fn binding_ended(&mut self, outcome: &BindOutcome) {
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
            let events = events.with_action("Binding");
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
