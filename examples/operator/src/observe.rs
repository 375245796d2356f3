//! From the actual objects to the facts that the plan depends on.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;

use crate::objects::{POSITION, PRIMARY, REPLICA, ROLE, VERSION};
use crate::plan::{Member, Outcome, Role, Schedule};

/// A member, from its pod.
pub fn member(pod: &Pod) -> Member {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let label = |label: &str| pod.metadata.labels.as_ref()?.get(label).cloned();
    let position = pod
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(POSITION)?.parse().ok());
    let ordinal = name.rsplit('-').next().and_then(|number| number.parse().ok());
    Member {
        ordinal: ordinal.unwrap_or(0),
        version: label(VERSION).unwrap_or_default(),
        ready: is_ready(pod),
        terminating: pod.metadata.deletion_timestamp.is_some(),
        role: match label(ROLE).as_deref() {
            Some(PRIMARY) => Role::Primary,
            Some(REPLICA) => Role::Replica,
            _ => Role::None,
        },
        position: position.unwrap_or(0),
        name,
    }
}

/// The outcome of a backup.
pub fn outcome(job: &Job) -> Outcome {
    let has = |type_: &str| {
        let conditions = job
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        conditions
            .into_iter()
            .any(|condition| condition.type_ == type_ && condition.status == "True")
    };
    match (has("Complete"), has("Failed")) {
        (true, _) => Outcome::Done,
        (false, true) => Outcome::Failed,
        (false, false) => Outcome::Running,
    }
}

/// When a backup was taken, if it was.
pub fn taken_at(job: &Job) -> Option<Timestamp> {
    let completed = job.status.as_ref()?.completion_time.as_ref()?;
    (outcome(job) == Outcome::Done).then_some(completed.0)
}

/// The state of the schedule. A failed backup counts as an attempt: it is not retried at once and for ever.
pub fn schedule<'a>(every_seconds: i64, jobs: impl Iterator<Item = &'a Job> + Clone) -> Schedule {
    let created = |job: &Job| job.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let attempted = |job: &'a Job| match outcome(job) {
        Outcome::Running => None,
        Outcome::Done => taken_at(job),
        Outcome::Failed => created(job),
    };
    let every = u64::try_from(every_seconds).ok().filter(|seconds| *seconds > 0);
    Schedule {
        every: every.map(Duration::from_secs),
        last: jobs.clone().filter_map(attempted).max(),
        running: jobs.clone().any(|job| outcome(job) == Outcome::Running),
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
