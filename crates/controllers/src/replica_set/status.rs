//! The status of a set: the counts of its pods and its failure condition. Pure.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use setpoint_api::Status;

use super::views::SetView;
use crate::pods::{Pod, available_in};

/// The condition that pods could not be created or deleted.
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The pod counts of the status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) active: i32,
    pub(crate) fully_labeled: i32,
    pub(crate) ready: i32,
    pub(crate) available: i32,
    pub(crate) terminating: i32,
}

/// Why the last attempt to reach the desired number failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// `FailedCreate` or `FailedDelete`.
    pub(crate) reason: &'static str,
    pub(crate) error: Status,
}

// === impl Failure ===

impl Failure {
    pub(crate) fn create(error: Status) -> Self {
        let reason = "FailedCreate";
        Self { reason, error }
    }

    pub(crate) fn delete(error: Status) -> Self {
        let reason = "FailedDelete";
        Self { reason, error }
    }
}

// === impl Counts ===

impl Counts {
    pub(crate) fn of(now: Timestamp, set: &SetView, pods: &[Pod]) -> Self {
        let mut counts = Self::default();
        for pod in pods {
            counts.terminating += i32::from(pod.is_terminating());
            if !pod.is_active() {
                continue;
            }
            let available = available_in(now, pod, set.min_ready_seconds);
            counts.active += 1;
            counts.fully_labeled += i32::from(pod.has_labels(&set.labels));
            counts.ready += i32::from(available.is_some());
            counts.available += i32::from(available.is_some_and(|wait| wait.is_zero()));
        }
        counts
    }
}

/// The status that a set with these counts should have. It is written if it differs from the current one.
pub(crate) fn status(
    now: Timestamp,
    set: &SetView,
    counts: Counts,
    failure: Option<&Failure>,
) -> ReplicaSetStatus {
    ReplicaSetStatus {
        replicas: counts.active,
        fully_labeled_replicas: written(counts.fully_labeled),
        ready_replicas: written(counts.ready),
        available_replicas: written(counts.available),
        terminating_replicas: Some(counts.terminating),
        observed_generation: Some(set.generation),
        conditions: conditions(now, set, failure),
    }
}

/// Zero is omitted, as the API does.
fn written(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

/// A continued failure keeps its first condition; once it is over the condition is removed.
fn conditions(now: Timestamp, set: &SetView, failure: Option<&Failure>) -> Option<Vec<ReplicaSetCondition>> {
    let old = set.status.conditions.iter().flatten();
    let is_failure = |condition: &&ReplicaSetCondition| condition.type_.as_deref() == Some(REPLICA_FAILURE);
    let known = old.clone().find(is_failure).cloned();
    let mut conditions: Vec<_> = old.filter(|one| !is_failure(one)).cloned().collect();
    if let Some(failure) = failure {
        conditions.push(known.unwrap_or_else(|| failed(now, failure)));
    }
    (!conditions.is_empty()).then_some(conditions)
}

fn failed(now: Timestamp, failure: &Failure) -> ReplicaSetCondition {
    ReplicaSetCondition {
        type_: Some(REPLICA_FAILURE.to_owned()),
        status: Some("True".to_owned()),
        last_transition_time: Some(Time(whole_seconds(now))),
        reason: Some(failure.reason.to_owned()),
        message: Some(failure.error.message.clone()),
    }
}

/// Times in objects have no fractions.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
