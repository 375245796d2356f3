//! Counts each finished pod once: its uid is recorded, its finalizer removed, the counter raised.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};
use parking_lot::Mutex;
use setpoint_api::Change;
use setpoint_values::indexes::Indexes;

use super::conditions::{COMPLETE, FAILURE_TARGET};
use super::plan::{JobState, Plan};
use super::pod::Pod;
use super::policy::{self, FailurePolicyAction};

/// The most uids recorded as uncounted at a time.
const MAX_UNCOUNTED: usize = 500;

/// The pods (by uid) whose finalizers were removed, until the cache shows it. An event may be late or lost, and a stale
/// pod must not be counted again.
#[derive(Debug, Default)]
pub(super) struct ReleasedPods(Mutex<HashSet<String>>);

/// The status after these finalizers were removed: the recorded uids are counted. The flag is set if nothing is left to
/// wait for, and the Job is finished.
pub(crate) fn after_release(plan: &Plan<'_>, still_tracked: &BTreeSet<String>) -> (JobStatus, bool) {
    let mut status = plan.status.clone();
    count_released(&mut status, still_tracked);
    let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
    let is_counted = uncounted.succeeded.is_none_or(|uids| uids.is_empty())
        && uncounted.failed.is_none_or(|uids| uids.is_empty());
    let is_over = plan.end.is_some() && is_counted && status.terminating.unwrap_or(0) == 0;
    if is_over && let Some(end) = &plan.end {
        if end.type_ == COMPLETE {
            status.completion_time = end.last_transition_time.clone();
        }
        status.conditions.get_or_insert_default().push(end.clone());
    }
    (status, is_over)
}

/// Counts the recorded uids whose pods no longer have their finalizers.
fn count_released(status: &mut JobStatus, still_tracked: &BTreeSet<String>) {
    let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
    let strike = |uids: &mut Option<Vec<String>>| {
        let before = uids.as_ref().map_or(0, Vec::len);
        let kept: Vec<String> = uids
            .take()
            .unwrap_or_default()
            .into_iter()
            .filter(|uid| still_tracked.contains(uid))
            .collect();
        let struck = before - kept.len();
        *uids = (!kept.is_empty()).then_some(kept);
        i32::try_from(struck).unwrap_or(i32::MAX)
    };
    let (succeeded, failed) = (strike(&mut uncounted.succeeded), strike(&mut uncounted.failed));
    add(&mut status.succeeded, succeeded);
    add(&mut status.failed, failed);
}

fn add(count: &mut Option<i32>, more: i32) {
    if more > 0 {
        *count = Some(count.unwrap_or(0) + more);
    }
}

// === impl ReleasedPods ===

impl ReleasedPods {
    /// The pod's finalizer is about to be removed.
    pub(super) fn note(&self, uid: &str) {
        self.0.lock().insert(uid.to_owned());
    }

    /// The finalizer was not removed, or the outcome is unknown.
    pub(super) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }

    /// A change that shows the pod without its finalizer makes the entry unnecessary.
    pub(super) fn observe(&self, change: &Change) {
        let object = change.object();
        if change.is_deletion() || !Pod::read(object.clone()).view.is_tracked {
            self.forget(object.uid());
        }
    }

    /// The pod as it is, whatever the cache still shows.
    pub(super) fn without_released(&self, mut pod: Pod) -> Pod {
        if pod.view.is_tracked && self.0.lock().contains(pod.uid()) {
            Arc::make_mut(&mut pod.view).is_tracked = false;
        }
        pod
    }
}

// === impl JobState ===

impl<'a> JobState<'a> {
    /// Records the finished pods to count, and plans which finalizers to remove after that.
    pub(super) fn track(&self, plan: &mut Plan<'a>, target: Option<&JobCondition>) {
        let mut tracked = self.tracked_uids();
        count_released(&mut plan.status, &tracked);
        let before = self.uncounted();
        let mut uncounted = plan.status.uncounted_terminated_pods.take().unwrap_or_default();
        let mut indexes = match self.indexes {
            Some(count) => Indexes::parse(
                plan.status.completed_indexes.as_deref().unwrap_or_default(),
                count,
            ),
            None => Indexes::default(),
        };
        let is_failing = target.is_some_and(|target| target.type_ == FAILURE_TARGET);
        let is_over = self.job.metadata.deletion_timestamp.is_some() || target.is_some();
        let is_in = |uids: &Option<Vec<String>>, pod: &Pod| uids.iter().flatten().any(|uid| uid == pod.uid());
        for pod in self.pods.iter().filter(|pod| pod.view.is_tracked) {
            let has_failed = pod.has_failed(self.replaces_failed_only);
            let is_kept = self
                .index(pod)
                .and_then(|index| self.waiting.get(&index))
                .is_some_and(|own| own.uid() == pod.uid());
            if !(is_over || pod.has_succeeded() || (has_failed && !is_kept)) {
                continue;
            }
            plan.release.push(pod);
            tracked.remove(pod.uid());
            if pod.has_succeeded() && !is_in(&before.failed, pod) {
                match self.index(pod) {
                    Some(index) => indexes.insert(index),
                    None if self.indexes.is_some() || is_in(&uncounted.succeeded, pod) => {}
                    None => uncounted
                        .succeeded
                        .get_or_insert_default()
                        .push(pod.uid().to_owned()),
                }
            } else if (has_failed || is_failing)
                && self.is_uncounted(pod, uncounted.failed.as_ref())
                && policy::failure_policy_action(self.job, pod) != FailurePolicyAction::Ignore
            {
                uncounted
                    .failed
                    .get_or_insert_default()
                    .push(pod.uid().to_owned());
            }
            let written =
                uncounted.succeeded.iter().flatten().count() + uncounted.failed.iter().flatten().count();
            if written >= MAX_UNCOUNTED {
                break;
            }
        }
        plan.still_tracked = tracked;
        plan.status.uncounted_terminated_pods = Some(uncounted);
        if self.indexes.is_some() {
            plan.status.succeeded =
                (!indexes.is_empty()).then(|| i32::try_from(indexes.len()).unwrap_or(i32::MAX));
            plan.status.completed_indexes = (!indexes.is_empty()).then(|| indexes.to_string());
            plan.status.failed_indexes = self.failed_indexes.as_ref().map(ToString::to_string);
        }
    }

    /// The uids of the pods with the tracking finalizer.
    fn tracked_uids(&self) -> BTreeSet<String> {
        let tracked = self.pods.iter().filter(|pod| pod.view.is_tracked);
        tracked.map(|pod| pod.uid().to_owned()).collect()
    }
}
