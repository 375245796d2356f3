//! What to do about a Job, from what is seen: pure.
//!
//! A pod's end is counted in three steps, so that it counts once whatever is interrupted: its uid is written down as
//! uncounted, then its finalizer goes, then the count goes up and the uid is struck out. [`plan`] makes the status with
//! the uids; [`super::tracking::settled`] the one after the finalizers are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus, UncountedTerminatedPods};

use super::conditions::{
    COMPLETE, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, condition, end, find, holds, turn,
};
use super::indexes::Indexes;
use super::pod::Pod;
use super::policy::{self, Verdict};
use crate::moments;

/// What to do about a Job now.
#[derive(Debug, Default)]
pub(crate) struct Plan<'a> {
    /// Active pods that are to go.
    pub(crate) delete: Vec<&'a Pod>,
    /// Whether those that go shall not be counted.
    pub(crate) uncounted_go: bool,
    /// Pods to create: for an indexed Job their indexes, each with the pod it replaces.
    pub(crate) create: Vec<(Option<u32>, Option<&'a Pod>)>,
    /// The status to write before any finalizer goes.
    pub(crate) status: JobStatus,
    /// Pods whose end is written down, so that their finalizers may go.
    pub(crate) release: Vec<&'a Pod>,
    /// What is true of the Job once everything is counted and gone.
    pub(crate) end: Option<JobCondition>,
    /// Whether it was suspended or resumed in this very moment.
    pub(crate) turn: Option<Turn>,
    /// When to look again, besides when something changes.
    pub(crate) recheck: Option<Duration>,
}

/// A change between working and waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Suspended,
    Resumed,
}

/// A Job and what has been made out about its pods.
pub(super) struct Seen<'a> {
    pub(super) now: Timestamp,
    pub(super) job: &'a Job,
    pub(super) spec: &'a JobSpec,
    pub(super) pods: &'a [Pod],
    /// For an indexed Job, how many indexes there are.
    pub(super) indexes: Option<u32>,
    pub(super) waits_for_the_end: bool,
    pub(super) active: Vec<&'a Pod>,
    pub(super) succeeded: i32,
    pub(super) failed: i32,
    pub(super) succeeded_indexes: Indexes,
    pub(super) failed_indexes: Option<Indexes>,
    /// Of the failed pods of each index, the last, which is kept until its replacement is there.
    pub(super) waiting: BTreeMap<u32, &'a Pod>,
}

/// Whether the Job has come to its end.
pub(crate) fn is_finished(job: &Job) -> bool {
    let status = job.status.as_ref();
    status.is_some_and(|status| holds(status, COMPLETE) || holds(status, FAILED))
}

/// Decides for a Job that has not come to its end.
pub(crate) fn plan<'a>(now: Timestamp, job: &'a Job, pods: &'a [Pod]) -> Option<Plan<'a>> {
    let seen = Seen::of(now, job, pods)?;
    let mut plan = Plan {
        status: job.status.clone().unwrap_or_default(),
        ..Plan::default()
    };
    plan.status.uncounted_terminated_pods.get_or_insert_default();
    let is_suspended = seen.is_suspended();
    if plan.status.start_time.is_none() && !is_suspended {
        plan.status.start_time = Some(moments::written(now));
    }
    let mut target = seen.target(&mut plan);
    if target.is_some() {
        plan.delete.clone_from(&seen.active);
    } else {
        if job.metadata.deletion_timestamp.is_none() {
            seen.manage(&mut plan);
        }
        let left = seen.active.len() - plan.delete.len() + plan.create.len();
        if left == 0 && seen.is_complete() {
            let message = "Reached expected number of succeeded pods";
            target = Some(condition(
                now,
                SUCCESS_CRITERIA_MET,
                "CompletionsReached",
                message,
            ));
        } else if job.metadata.deletion_timestamp.is_none() {
            plan.turn = turn(now, &mut plan.status, is_suspended);
        }
    }
    seen.count_active(&mut plan);
    seen.track(&mut plan, target.as_ref());
    plan.end = end(now, &mut plan.status, target);
    Some(plan)
}

// === impl Seen ===

impl<'a> Seen<'a> {
    fn of(now: Timestamp, job: &'a Job, pods: &'a [Pod]) -> Option<Self> {
        let spec = job.spec.as_ref()?;
        let is_indexed = spec.completion_mode.as_deref() == Some("Indexed");
        let completions = spec.completions.and_then(|count| u32::try_from(count).ok());
        let mut seen = Self {
            now,
            job,
            spec,
            pods,
            indexes: completions.filter(|_| is_indexed),
            waits_for_the_end: spec.pod_replacement_policy.as_deref() == Some("Failed"),
            active: pods.iter().filter(|pod| pod.pod.is_active()).collect(),
            succeeded: 0,
            failed: 0,
            succeeded_indexes: Indexes::default(),
            failed_indexes: None,
            waiting: BTreeMap::new(),
        };
        seen.count();
        seen.find_indexes();
        Some(seen)
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

    /// The index of the pod, if the Job has it.
    pub(super) fn index(&self, pod: &Pod) -> Option<u32> {
        let indexes = self.indexes?;
        pod.view.index.filter(|index| *index < indexes)
    }

    /// Whether the end of the pod is still to be counted.
    pub(super) fn is_news(&self, pod: &Pod, written_down: Option<&Vec<String>>) -> bool {
        let is_written = written_down.is_some_and(|uids| uids.iter().any(|uid| uid == pod.uid()));
        pod.view.is_tracked && !is_written && (self.indexes.is_none() || self.index(pod).is_some())
    }

    fn count(&mut self) {
        let (status, uncounted) = (self.status(), self.uncounted());
        let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        let succeeded = self
            .pods
            .iter()
            .filter(|pod| pod.has_succeeded() && self.is_news(pod, uncounted.succeeded.as_ref()));
        let failed = self.pods.iter().filter(|pod| {
            pod.has_failed(self.waits_for_the_end)
                && self.is_news(pod, uncounted.failed.as_ref())
                && policy::verdict(self.job, pod) != Verdict::Ignore
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
        pod.has_failed(self.waits_for_the_end)
            && match policy::verdict(self.job, pod) {
                Verdict::FailIndex => true,
                Verdict::Ignore => false,
                Verdict::Count | Verdict::FailJob(_) => pod.view.failures >= limit,
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
            if is_settled || !pod.has_failed(self.waits_for_the_end) {
                continue;
            }
            let last = waiting.entry(*index).or_insert(pod);
            if all_failures(last) <= all_failures(pod) {
                *last = pod;
            }
        }
        waiting
    }

    /// What the Job is headed for, if it is decided.
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
            .filter(|pod| pod.has_failed(self.waits_for_the_end));
        let verdict = failed
            .map(|pod| policy::verdict(self.job, pod))
            .find(|verdict| matches!(verdict, Verdict::FailJob(_)));
        if let Some(Verdict::FailJob(message)) = verdict {
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
            match moments::until(self.now, moments::later(start.0, deadline)) {
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

    /// Where containers are started again in their pods, their restarts count as failures.
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

    /// The counts of pods at work, as they are after what the plan does.
    fn count_active(&self, plan: &mut Plan<'a>) {
        let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        let is_ready = |pod: &&&Pod| pod.pod.view().ready_since.is_some();
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
