//! The status of a Deployment: counts of its sets and how its rollout goes, pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};

use super::plan::{Telling, bounds};
use super::sets::{available, replicas};
use crate::moments;

const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const REPLICA_FAILURE: &str = "ReplicaFailure";

const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
const COMPLETE: &str = "NewReplicaSetAvailable";

/// Something that happened to the set of the newest template in this very reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News<'a> {
    None,
    Created(&'a str),
    NotCreated(&'a str, &'a str),
}

/// What the status is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) now: Timestamp,
    pub(crate) deployment: &'a Deployment,
    pub(crate) new: Option<&'a ReplicaSet>,
    pub(crate) all: &'a [ReplicaSet],
    pub(crate) telling: Telling,
    pub(crate) news: News<'a>,
}

/// The status that the Deployment should have. Equal to the one it has: nothing to write.
pub(crate) fn status(seen: Seen<'_>) -> DeploymentStatus {
    let before = with_news(seen);
    let mut status = counts(seen, &before);
    set_available(seen, &mut status);
    if seen.telling == Telling::Rollout && seen.news == News::None {
        set_progress(seen, &before, &mut status);
        set_failure(seen, &mut status);
    }
    let conditions = status
        .conditions
        .take()
        .filter(|conditions| !conditions.is_empty());
    DeploymentStatus { conditions, ..status }
}

/// When the deadline for progress passes, if it is running.
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
    let due = moments::later(current.last_update_time.as_ref()?.0, deadline);
    // One second more, so that the deadline has passed when the time comes.
    Some(moments::until(now, due).unwrap_or_default() + Duration::from_secs(1))
}

/// Whether all pods are of the newest template and available, and nothing newer was asked for since.
pub(crate) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let counts = [
        status.updated_replicas,
        status.replicas,
        status.available_replicas,
    ];
    let generation = deployment.metadata.generation.unwrap_or(0);
    counts.into_iter().all(|count| count.unwrap_or(0) == wanted)
        && status.observed_generation.unwrap_or(0) >= generation
}

/// The status before, with what has just happened to the set of the newest template and with pauses.
fn with_news(seen: Seen<'_>) -> DeploymentStatus {
    let mut status = seen.deployment.status.clone().unwrap_or_default();
    if deadline(seen.deployment).is_none() {
        return status;
    }
    let reason = find(&status, PROGRESSING).and_then(|own| own.reason.clone());
    let is_paused = seen.deployment.spec.paused == Some(true);
    let is_going = seen.deployment.metadata.deletion_timestamp.is_some();
    let mut say = |value, reason, message: &str| {
        set(
            &mut status,
            condition(seen.now, PROGRESSING, value, reason, message),
        );
    };
    match (reason.as_deref(), seen.news) {
        _ if is_going => {}
        (Some(TIMED_OUT), News::None) => {}
        (Some(PAUSED), _) if !is_paused => say("Unknown", "DeploymentResumed", "Deployment is resumed"),
        (reason, _) if is_paused && reason != Some(PAUSED) => say("Unknown", PAUSED, "Deployment is paused"),
        (_, News::Created(name)) => {
            let message = format!("Created new replica set {name:?}");
            say("True", "NewReplicaSetCreated", &message);
        }
        (_, News::NotCreated(name, why)) => {
            let message = format!("Failed to create new replica set {name:?}: {why}");
            say("False", "ReplicaSetCreateError", &message);
        }
        (None, News::None) => {
            if let Some(new) = seen.new {
                let message = format!("Found new replica set {:?}", name(new));
                say("True", "FoundNewReplicaSet", &message);
            }
        }
        _ => {}
    }
    status
}

fn counts(seen: Seen<'_>, before: &DeploymentStatus) -> DeploymentStatus {
    let sum = |count: &dyn Fn(&ReplicaSet) -> i32| seen.all.iter().map(count).sum::<i32>();
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
        observed_generation: seen.deployment.metadata.generation,
        replicas: some(sum(&actual)),
        updated_replicas: some(seen.new.map_or(0, actual)),
        ready_replicas: some(sum(&ready)),
        available_replicas: some(available),
        unavailable_replicas: some((sum(&replicas) - available).max(0)),
        terminating_replicas: seen.all.iter().map(terminating).sum(),
        collision_count: before.collision_count,
        conditions: before.conditions.clone(),
    }
}

fn set_available(seen: Seen<'_>, status: &mut DeploymentStatus) {
    let fewest = bounds(seen.deployment).fewest_available();
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
    set(status, condition(seen.now, AVAILABLE, value, reason, message));
}

fn set_progress(seen: Seen<'_>, before: &DeploymentStatus, status: &mut DeploymentStatus) {
    let Some(deadline) = deadline(seen.deployment) else {
        remove(status, PROGRESSING);
        return;
    };
    let current = find(before, PROGRESSING);
    let reason = current.and_then(|current| current.reason.as_deref());
    let is_done = status.replicas == status.updated_replicas && reason == Some(COMPLETE);
    if is_done {
        return;
    }
    let subject = match seen.new {
        Some(new) => format!("ReplicaSet {:?}", name(new)),
        None => format!(
            "Deployment {:?}",
            seen.deployment.metadata.name.as_deref().unwrap_or_default()
        ),
    };
    if is_complete(seen.deployment, status) {
        let message = format!("{subject} has successfully progressed.");
        set(
            status,
            condition(seen.now, PROGRESSING, "True", COMPLETE, &message),
        );
    } else if has_progressed(before, status) {
        let message = format!("{subject} is progressing.");
        let mut new = condition(seen.now, PROGRESSING, "True", "ReplicaSetUpdated", &message);
        if let Some(current) = current.filter(|current| current.status.as_deref() == Some("True")) {
            new.last_transition_time = current.last_transition_time.clone();
        }
        // Every progress starts the deadline anew, though the words stay the same.
        remove(status, PROGRESSING);
        status.conditions.get_or_insert_default().push(new);
    } else if current.is_some_and(|current| is_overdue(seen.now, current, deadline)) {
        let message = format!("{subject} has timed out progressing.");
        set(
            status,
            condition(seen.now, PROGRESSING, "False", TIMED_OUT, &message),
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
            since.is_some_and(|since| moments::later(since, deadline) < now)
        }
    }
}

/// The trouble of a set is the Deployment's, that of the newest before that of others.
fn set_failure(seen: Seen<'_>, status: &mut DeploymentStatus) {
    let sets = seen.new.into_iter().chain(seen.all);
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

/// How many seconds may pass without progress; nothing if for ever.
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
        last_transition_time: Some(moments::written(now)),
        last_update_time: Some(moments::written(now)),
    }
}

fn find<'a>(status: &'a DeploymentStatus, type_: &str) -> Option<&'a DeploymentCondition> {
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|condition| condition.type_.as_deref() == Some(type_))
}

/// Puts the condition in the place of its predecessor; one of the same status and reason stays as it is.
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
