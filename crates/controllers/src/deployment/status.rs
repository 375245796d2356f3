//! The status of a Deployment: the counts of its sets and the conditions of its rollout. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};

use super::plan::{StatusMode, bounds};
use super::sets::{available, replicas};
use crate::api_time;

const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const REPLICA_FAILURE: &str = "ReplicaFailure";

const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
const COMPLETE: &str = "NewReplicaSetAvailable";

/// What this reconcile did to the newest set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RolloutEvent<'a> {
    None,
    Created(&'a str),
    NotCreated(&'a str, &'a str),
}

/// What the status is computed from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatusInput<'a> {
    pub(crate) now: Timestamp,
    pub(crate) deployment: &'a Deployment,
    pub(crate) new: Option<&'a ReplicaSet>,
    pub(crate) all: &'a [ReplicaSet],
    pub(crate) status_mode: StatusMode,
    pub(crate) event: RolloutEvent<'a>,
}

/// The status that the Deployment should have. It is written if it differs from the current one.
pub(crate) fn status(input: StatusInput<'_>) -> DeploymentStatus {
    let before = with_event(input);
    let mut status = counts(input, &before);
    set_available(input, &mut status);
    if input.status_mode == StatusMode::Rollout && input.event == RolloutEvent::None {
        set_progress(input, &before, &mut status);
        set_failure(input, &mut status);
    }
    let conditions = status
        .conditions
        .take()
        .filter(|conditions| !conditions.is_empty());
    DeploymentStatus { conditions, ..status }
}

/// How long until the progress deadline, if it is running.
pub(crate) fn deadline_in(
    now: Timestamp,
    deployment: &Deployment,
    status: &DeploymentStatus,
) -> Option<Duration> {
    let deadline = deadline(deployment)?;
    let current = find(status, PROGRESSING)?;
    let is_decided = is_complete(deployment, status) || current.reason.as_deref() == Some(TIMED_OUT);
    if is_decided || deployment.spec.paused == Some(true) {
        return None;
    }
    let due = api_time::add_seconds(current.last_update_time.as_ref()?.0, deadline);
    // One second more, so that the deadline has passed when the key is requeued.
    Some(api_time::duration_until(now, due).unwrap_or_default() + Duration::from_secs(1))
}

/// Whether all pods are of the newest template and available, and the spec was observed.
pub(crate) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let desired_replicas = deployment.spec.replicas.unwrap_or(1);
    let counts = [
        status.updated_replicas,
        status.replicas,
        status.available_replicas,
    ];
    let generation = deployment.metadata.generation.unwrap_or(0);
    counts
        .into_iter()
        .all(|count| count.unwrap_or(0) == desired_replicas)
        && status.observed_generation.unwrap_or(0) >= generation
}

/// The previous status with the `Progressing` condition updated for this event and for pauses.
fn with_event(input: StatusInput<'_>) -> DeploymentStatus {
    let mut status = input.deployment.status.clone().unwrap_or_default();
    if deadline(input.deployment).is_none() {
        return status;
    }
    let reason = find(&status, PROGRESSING).and_then(|own| own.reason.clone());
    let is_paused = input.deployment.spec.paused == Some(true);
    let is_terminating = input.deployment.metadata.deletion_timestamp.is_some();
    let mut set_progressing = |value, reason, message: &str| {
        set(
            &mut status,
            condition(input.now, PROGRESSING, value, reason, message),
        );
    };
    match (reason.as_deref(), input.event) {
        _ if is_terminating => {}
        (Some(TIMED_OUT), RolloutEvent::None) => {}
        (Some(PAUSED), _) if !is_paused => {
            set_progressing("Unknown", "DeploymentResumed", "Deployment is resumed")
        }
        (reason, _) if is_paused && reason != Some(PAUSED) => {
            set_progressing("Unknown", PAUSED, "Deployment is paused")
        }
        (_, RolloutEvent::Created(name)) => {
            let message = format!("Created new replica set {name:?}");
            set_progressing("True", "NewReplicaSetCreated", &message);
        }
        (_, RolloutEvent::NotCreated(name, why)) => {
            let message = format!("Failed to create new replica set {name:?}: {why}");
            set_progressing("False", "ReplicaSetCreateError", &message);
        }
        (None, RolloutEvent::None) => {
            if let Some(new) = input.new {
                let message = format!("Found new replica set {:?}", name(new));
                set_progressing("True", "FoundNewReplicaSet", &message);
            }
        }
        _ => {}
    }
    status
}

fn counts(input: StatusInput<'_>, before: &DeploymentStatus) -> DeploymentStatus {
    let sum = |count: &dyn Fn(&ReplicaSet) -> i32| input.all.iter().map(count).sum::<i32>();
    let actual = |set: &ReplicaSet| set.status.as_ref().map_or(0, |status| status.replicas);
    let ready = |set: &ReplicaSet| {
        set.status
            .as_ref()
            .and_then(|status| status.ready_replicas)
            .unwrap_or(0)
    };
    let terminating = |set: &ReplicaSet| set.status.as_ref()?.terminating_replicas;
    let available = sum(&available);
    let some = |count: i32| (count != 0).then_some(count);
    DeploymentStatus {
        observed_generation: input.deployment.metadata.generation,
        replicas: some(sum(&actual)),
        updated_replicas: some(input.new.map_or(0, actual)),
        ready_replicas: some(sum(&ready)),
        available_replicas: some(available),
        unavailable_replicas: some((sum(&replicas) - available).max(0)),
        terminating_replicas: input.all.iter().map(terminating).sum(),
        collision_count: before.collision_count,
        conditions: before.conditions.clone(),
    }
}

fn set_available(input: StatusInput<'_>, status: &mut DeploymentStatus) {
    let fewest = bounds(input.deployment).min_available();
    let (value, reason, message) = match status.available_replicas.unwrap_or(0) >= fewest {
        true => (
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        ),
        false => (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        ),
    };
    set(status, condition(input.now, AVAILABLE, value, reason, message));
}

fn set_progress(input: StatusInput<'_>, before: &DeploymentStatus, status: &mut DeploymentStatus) {
    let Some(deadline) = deadline(input.deployment) else {
        remove(status, PROGRESSING);
        return;
    };
    let current = find(before, PROGRESSING);
    let reason = current.and_then(|current| current.reason.as_deref());
    let is_done = status.replicas == status.updated_replicas && reason == Some(COMPLETE);
    if is_done {
        return;
    }
    let subject = match input.new {
        Some(new) => format!("ReplicaSet {:?}", name(new)),
        None => format!(
            "Deployment {:?}",
            input.deployment.metadata.name.as_deref().unwrap_or_default()
        ),
    };
    if is_complete(input.deployment, status) {
        let message = format!("{subject} has successfully progressed.");
        set(
            status,
            condition(input.now, PROGRESSING, "True", COMPLETE, &message),
        );
    } else if has_progressed(before, status) {
        let message = format!("{subject} is progressing.");
        let mut new = condition(input.now, PROGRESSING, "True", "ReplicaSetUpdated", &message);
        if let Some(current) = current.filter(|current| current.status.as_deref() == Some("True")) {
            new.last_transition_time = current.last_transition_time.clone();
        }
        // Every progress restarts the deadline, though reason and message stay the same.
        remove(status, PROGRESSING);
        status.conditions.get_or_insert_default().push(new);
    } else if current.is_some_and(|current| is_overdue(input.now, current, deadline)) {
        let message = format!("{subject} has timed out progressing.");
        set(
            status,
            condition(input.now, PROGRESSING, "False", TIMED_OUT, &message),
        );
    }
}

fn has_progressed(before: &DeploymentStatus, status: &DeploymentStatus) -> bool {
    let olds =
        |status: &DeploymentStatus| status.replicas.unwrap_or(0) - status.updated_replicas.unwrap_or(0);
    status.updated_replicas > before.updated_replicas
        || olds(status) < olds(before)
        || status.ready_replicas > before.ready_replicas
        || status.available_replicas > before.available_replicas
}

fn is_overdue(now: Timestamp, current: &DeploymentCondition, deadline: i64) -> bool {
    match current.reason.as_deref() {
        Some(COMPLETE) => false,
        Some(TIMED_OUT) => true,
        _ => {
            let since = current.last_update_time.as_ref().map(|time| time.0);
            since.is_some_and(|since| api_time::add_seconds(since, deadline) < now)
        }
    }
}

/// Copies the failure of a set to the Deployment, the newest set's before the others'.
fn set_failure(input: StatusInput<'_>, status: &mut DeploymentStatus) {
    let sets = input.new.into_iter().chain(input.all);
    let conditions = sets.flat_map(|set| {
        set.status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten())
    });
    let failure = conditions
        .into_iter()
        .find(|condition| condition.type_.as_deref() == Some(REPLICA_FAILURE));
    match failure {
        None => remove(status, REPLICA_FAILURE),
        Some(failure) => {
            let failed = DeploymentCondition {
                type_: Some(REPLICA_FAILURE.to_owned()),
                status: failure.status.clone(),
                reason: failure.reason.clone(),
                message: failure.message.clone(),
                last_transition_time: failure.last_transition_time.clone(),
                last_update_time: failure.last_transition_time.clone(),
            };
            set(status, failed);
        }
    }
}

/// The progress deadline in seconds; `None` if there is none.
fn deadline(deployment: &Deployment) -> Option<i64> {
    let deadline = deployment.spec.progress_deadline_seconds?;
    (deadline != i32::MAX).then_some(i64::from(deadline))
}

fn name(set: &ReplicaSet) -> &str {
    set.metadata.name.as_deref().unwrap_or_default()
}

fn condition(now: Timestamp, type_: &str, status: &str, reason: &str, message: &str) -> DeploymentCondition {
    DeploymentCondition {
        type_: Some(type_.to_owned()),
        status: Some(status.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(api_time::from_timestamp(now)),
        last_update_time: Some(api_time::from_timestamp(now)),
    }
}

fn find<'a>(status: &'a DeploymentStatus, type_: &str) -> Option<&'a DeploymentCondition> {
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|condition| condition.type_.as_deref() == Some(type_))
}

/// Replaces the condition of the same type; one of the same status and reason is kept as it is.
fn set(status: &mut DeploymentStatus, mut new: DeploymentCondition) {
    let type_ = new.type_.clone().unwrap_or_default();
    if let Some(old) = find(status, &type_) {
        if old.status == new.status && old.reason == new.reason {
            return;
        }
        if old.status == new.status {
            new.last_transition_time = old.last_transition_time.clone();
        }
    }
    remove(status, &type_);
    status.conditions.get_or_insert_default().push(new);
}

fn remove(status: &mut DeploymentStatus, type_: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.type_.as_deref() != Some(type_));
    }
}
