//! Decides what to do about a Job. Pure.
//!
//! A finished pod is counted in three steps, so that it counts once whatever is interrupted: its uid is recorded in
//! `uncountedTerminatedPods`, then its finalizer is removed, then the counter is raised and the uid removed. [`plan`]
//! builds the status with the uids; [`super::tracking::after_release`] the one after the finalizers are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods};
use setpoint_values::indexes::Indexes;

use super::conditions::{
    COMPLETE, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, condition, end, find, holds, suspend_change,
};
use super::pod::Pod;
use super::policy::{self, FailurePolicyAction};
use crate::api_time;

/// What to do about a Job now.
#[derive(Debug, Default)]
pub(crate) struct Plan<'a> {
    /// Active pods to delete.
    pub(crate) delete: Vec<&'a Pod>,
    /// Whether the deleted pods must not be counted.
    pub(crate) delete_uncounted: bool,
    /// Pods to create: for an indexed Job their indexes, each with the pod it replaces.
    pub(crate) create: Vec<(Option<u32>, Option<&'a Pod>)>,
    /// The status to write before any finalizer is removed.
    pub(crate) status: JobStatus,
    /// Pods whose uid is recorded, so that their finalizers may be removed.
    pub(crate) release: Vec<&'a Pod>,
    /// The uids of the tracked pods that are not released.
    pub(crate) still_tracked: BTreeSet<String>,
    /// The terminal condition of the Job, once everything is counted and deleted.
    pub(crate) end: Option<JobCondition>,
    /// Whether this reconcile suspends or resumes the Job.
    pub(crate) suspend_change: Option<SuspendChange>,
    /// When to requeue without any event.
    pub(crate) recheck: Option<Duration>,
}

/// A Job was suspended or resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SuspendChange {
    Suspended,
    Resumed,
}

/// A Job and the state of its pods.
pub(super) struct JobState<'a> {
    pub(super) now: Timestamp,
    pub(super) job: &'a Job,
    pub(super) spec: &'a JobSpec,
    pub(super) pods: &'a [Pod],
    /// For an indexed Job, the number of indexes.
    pub(super) indexes: Option<u32>,
    pub(super) replaces_failed_only: bool,
    pub(super) active: Vec<&'a Pod>,
    pub(super) succeeded: i32,
    pub(super) failed: i32,
    pub(super) succeeded_indexes: Indexes,
    pub(super) failed_indexes: Option<Indexes>,
    /// The last failed pod of each index, kept until its replacement exists.
    pub(super) waiting: BTreeMap<u32, &'a Pod>,
}

/// Whether the Job is complete or failed.
pub(crate) fn is_finished(job: &Job) -> bool {
    let status = job.status.as_ref();
    status.is_some_and(|status| holds(status, COMPLETE) || holds(status, FAILED))
}

/// Plans for a Job that is not finished.
pub(crate) fn plan<'a>(now: Timestamp, job: &'a Job, pods: &'a [Pod]) -> Option<Plan<'a>> {
    let state = JobState::of(now, job, pods)?;
    let mut plan = Plan {
        status: job.status.clone().unwrap_or_default(),
        ..Plan::default()
    };
    plan.status.uncounted_terminated_pods.get_or_insert_default();
    let is_suspended = state.is_suspended();
    if plan.status.start_time.is_none() && !is_suspended {
        plan.status.start_time = Some(api_time::from_timestamp(now));
    }
    let mut target = state.target(&mut plan);
    if target.is_some() {
        plan.delete.clone_from(&state.active);
    } else {
        if job.metadata.deletion_timestamp.is_none() {
            state.manage(&mut plan);
        }
        let left = state.active.len() - plan.delete.len() + plan.create.len();
        if left == 0 && state.is_complete() {
            let message = "Reached expected number of succeeded pods";
            target = Some(condition(
                now,
                SUCCESS_CRITERIA_MET,
                "CompletionsReached",
                message,
            ));
        } else if job.metadata.deletion_timestamp.is_none() {
            plan.suspend_change = suspend_change(now, &mut plan.status, is_suspended);
        }
    }
    state.count_active(&mut plan);
    state.track(&mut plan, target.as_ref());
    plan.end = end(now, &mut plan.status, target);
    Some(plan)
}

// === impl JobState ===

impl<'a> JobState<'a> {
    fn of(now: Timestamp, job: &'a Job, pods: &'a [Pod]) -> Option<Self> {
        let spec = job.spec.as_ref()?;
        let is_indexed = spec.completion_mode.as_deref() == Some("Indexed");
        let completions = spec.completions.and_then(|count| u32::try_from(count).ok());
        let mut state = Self {
            now,
            job,
            spec,
            pods,
            indexes: completions.filter(|_| is_indexed),
            replaces_failed_only: spec.pod_replacement_policy.as_deref() == Some("Failed"),
            active: pods.iter().filter(|pod| pod.pod.is_active()).collect(),
            succeeded: 0,
            failed: 0,
            succeeded_indexes: Indexes::default(),
            failed_indexes: None,
            waiting: BTreeMap::new(),
        };
        state.count();
        state.find_indexes();
        Some(state)
    }

    fn status(&self) -> JobStatus {
        self.job.status.clone().unwrap_or_default()
    }

    pub(super) fn uncounted(&self) -> UncountedTerminatedPods {
        self.status().uncounted_terminated_pods.unwrap_or_default()
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// The completion index of the pod, if it is valid for the Job.
    pub(super) fn index(&self, pod: &Pod) -> Option<u32> {
        let indexes = self.indexes?;
        pod.view.index.filter(|index| *index < indexes)
    }

    /// Whether the finished pod is still to be counted.
    pub(super) fn is_uncounted(&self, pod: &Pod, written_down: Option<&Vec<String>>) -> bool {
        let is_written = written_down.is_some_and(|uids| uids.iter().any(|uid| uid == pod.uid()));
        pod.view.is_tracked && !is_written && (self.indexes.is_none() || self.index(pod).is_some())
    }

    fn count(&mut self) {
        let (status, uncounted) = (self.status(), self.uncounted());
        let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        let succeeded = self
            .pods
            .iter()
            .filter(|pod| pod.has_succeeded() && self.is_uncounted(pod, uncounted.succeeded.as_ref()));
        let failed = self.pods.iter().filter(|pod| {
            pod.has_failed(self.replaces_failed_only)
                && self.is_uncounted(pod, uncounted.failed.as_ref())
                && policy::failure_policy_action(self.job, pod) != FailurePolicyAction::Ignore
        });
        let (succeeded, failed) = (count(succeeded.count()), count(failed.count()));
        let written = |uids: Option<Vec<String>>| count(uids.map_or(0, |uids| uids.len()));
        self.succeeded = status.succeeded.unwrap_or(0) + succeeded + written(uncounted.succeeded);
        self.failed = status.failed.unwrap_or(0) + failed + written(uncounted.failed);
    }

    fn find_indexes(&mut self) {
        let Some(indexes) = self.indexes else { return };
        let status = self.status();
        let mut succeeded = Indexes::parse(status.completed_indexes.as_deref().unwrap_or_default(), indexes);
        let tracked = self.pods.iter().filter(|pod| pod.view.is_tracked);
        let tracked: Vec<(u32, &Pod)> = tracked.filter_map(|pod| Some((self.index(pod)?, pod))).collect();
        for (index, pod) in &tracked {
            if pod.has_succeeded() {
                succeeded.insert(*index);
            }
        }
        self.succeeded = i32::try_from(succeeded.len()).unwrap_or(i32::MAX);
        if let Some(limit) = self.spec.backoff_limit_per_index {
            let mut failed = Indexes::parse(status.failed_indexes.as_deref().unwrap_or_default(), indexes);
            for (index, pod) in &tracked {
                if self.fails_index(pod, limit) {
                    failed.insert(*index);
                }
            }
            self.waiting = self.waiting(&tracked, &succeeded, &failed);
            self.failed_indexes = Some(failed);
        }
        self.succeeded_indexes = succeeded;
    }

    fn fails_index(&self, pod: &Pod, limit: i32) -> bool {
        pod.has_failed(self.replaces_failed_only)
            && match policy::failure_policy_action(self.job, pod) {
                FailurePolicyAction::FailIndex => true,
                FailurePolicyAction::Ignore => false,
                FailurePolicyAction::Count | FailurePolicyAction::FailJob(_) => pod.view.failures >= limit,
            }
    }

    fn waiting(
        &self,
        tracked: &[(u32, &'a Pod)],
        succeeded: &Indexes,
        failed: &Indexes,
    ) -> BTreeMap<u32, &'a Pod> {
        let active: BTreeSet<u32> = self.active.iter().filter_map(|pod| self.index(pod)).collect();
        let mut waiting: BTreeMap<u32, &'a Pod> = BTreeMap::new();
        let all_failures = |pod: &Pod| (pod.view.failures + pod.view.ignored_failures, pod.finished());
        for (index, pod) in tracked {
            let is_settled = succeeded.has(*index) || failed.has(*index) || active.contains(index);
            if is_settled || !pod.has_failed(self.replaces_failed_only) {
                continue;
            }
            let last = waiting.entry(*index).or_insert(pod);
            if all_failures(last) <= all_failures(pod) {
                *last = pod;
            }
        }
        waiting
    }

    /// The SuccessCriteriaMet or FailureTarget condition, if the outcome is decided.
    fn target(&self, plan: &mut Plan<'a>) -> Option<JobCondition> {
        let status = self.status();
        if let Some(decided) = find(&status, SUCCESS_CRITERIA_MET).or_else(|| find(&status, FAILURE_TARGET)) {
            return Some(decided.clone());
        }
        if let Some(failure) = self.failure(plan) {
            let (reason, message) = failure;
            return Some(condition(self.now, FAILURE_TARGET, reason, &message));
        }
        let message = policy::success(self.job, &self.succeeded_indexes, self.indexes?)?;
        Some(condition(
            self.now,
            SUCCESS_CRITERIA_MET,
            "SuccessPolicy",
            &message,
        ))
    }

    fn failure(&self, plan: &mut Plan<'a>) -> Option<(&'static str, String)> {
        let failed = self
            .pods
            .iter()
            .filter(|pod| pod.has_failed(self.replaces_failed_only));
        let failure_policy_action = failed
            .map(|pod| policy::failure_policy_action(self.job, pod))
            .find(|failure_policy_action| matches!(failure_policy_action, FailurePolicyAction::FailJob(_)));
        if let Some(FailurePolicyAction::FailJob(message)) = failure_policy_action {
            return Some(("PodFailurePolicy", message));
        }
        let limit = self.spec.backoff_limit.unwrap_or(6);
        if self.failed > limit || self.has_restarted_too_often(limit) {
            return Some((
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit".to_owned(),
            ));
        }
        if let (Some(deadline), Some(start), false) = (
            self.spec.active_deadline_seconds,
            &plan.status.start_time,
            self.is_suspended(),
        ) {
            match api_time::duration_until(self.now, api_time::add_seconds(start.0, deadline)) {
                None => {
                    let message = "Job was active longer than specified deadline".to_owned();
                    return Some(("DeadlineExceeded", message));
                }
                Some(left) => plan.wake_in(left),
            }
        }
        let failed = self.failed_indexes.as_ref()?.len();
        let most = self
            .spec
            .max_failed_indexes
            .and_then(|most| usize::try_from(most).ok());
        if most.is_some_and(|most| failed > most) {
            let message = "Job has exceeded the specified maximal number of failed indexes".to_owned();
            return Some(("MaxFailedIndexesExceeded", message));
        }
        let indexes = usize::try_from(self.indexes?).unwrap_or(usize::MAX);
        let are_all_done = failed > 0 && failed + self.succeeded_indexes.len() >= indexes;
        are_all_done.then(|| ("FailedIndexes", "Job has failed indexes".to_owned()))
    }

    /// With restart policy OnFailure, container restarts count as failures.
    fn has_restarted_too_often(&self, limit: i32) -> bool {
        let template = self.spec.template.spec.as_ref();
        if template.and_then(|spec| spec.restart_policy.as_deref()) != Some("OnFailure") {
            return false;
        }
        let alive = self.pods.iter().filter(|pod| !pod.pod.is_finished());
        let restarts: i32 = alive.map(|pod| pod.view.restarts).sum();
        if limit == 0 {
            restarts > 0
        } else {
            restarts >= limit
        }
    }

    fn is_complete(&self) -> bool {
        match self.spec.completions {
            None => self.succeeded > 0,
            Some(completions) => self.succeeded >= completions,
        }
    }

    /// The counts of active pods after the plan is carried out.
    fn count_active(&self, plan: &mut Plan<'a>) {
        let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        let is_ready = |pod: &&&Pod| pod.pod.view().is_ready();
        let terminating = self.pods.iter().filter(|pod| pod.pod.is_terminating()).count();
        let active = self.active.len() - plan.delete.len() + plan.create.len();
        let ready = self.active.iter().filter(is_ready).count() - plan.delete.iter().filter(is_ready).count();
        plan.status.active = (active > 0).then(|| count(active));
        plan.status.ready = Some(count(ready));
        plan.status.terminating = Some(count(terminating + plan.delete.len()));
    }
}

// === impl Plan ===

impl Plan<'_> {
    pub(super) fn wake_in(&mut self, left: Duration) {
        self.recheck = Some(self.recheck.map_or(left, |own| own.min(left)));
    }
}

#[cfg(test)]
mod tests;
