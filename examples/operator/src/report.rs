//! The status of a database, its conditions, and an event when they change.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use setpoint_runtime::TypedObject;
use setpoint_runtime::conditions::{self, condition};
use setpoint_runtime::reconcile::Error;

use crate::controller::{Operator, version};
use crate::database::{Database, DatabaseStatus};
use crate::observe;
use crate::plan::{Member, ObservedState, Phase, Plan, Role};

/// The database with its new status; `None` if the status has not changed. Records an event for each changed condition.
pub(crate) fn new_status(
    operator: &Operator,
    database: &TypedObject<Database>,
    observed: &ObservedState,
    plan: &Plan,
    jobs: &[Arc<Job>],
) -> Result<Option<Database>, Error> {
    let mut updated = database.to_owned()?;
    let old = updated.status.clone().unwrap_or_default();
    let mut status = facts(&old, observed, jobs);
    status.observed_generation = updated.metadata.generation.unwrap_or(0);
    let now = operator.clock.now();
    for new in [ready(observed, plan), upgrading(&updated, plan)] {
        let reason = conditions::find(&old.conditions, &new.type_).map(|old| old.reason.clone());
        if reason.as_ref() != Some(&new.reason) {
            record_event(operator, database, &new);
        }
        conditions::set(&mut status.conditions, new, now);
    }
    if updated.status.as_ref() == Some(&status) {
        return Ok(None);
    }
    updated.status = Some(status);
    Ok(Some(updated))
}

fn facts(old: &DatabaseStatus, observed: &ObservedState, jobs: &[Arc<Job>]) -> DatabaseStatus {
    let primary = observed
        .members
        .iter()
        .find(|member| member.role == Role::Primary && member.is_available());
    let first = observed.members.first().map(|member| &member.version);
    let same = first.filter(|version| observed.members.iter().all(|member| member.version == **version));
    let taken = jobs
        .iter()
        .filter_map(|job| observe::taken_at(job))
        .max()
        .map(Time);
    let ready = observed
        .members
        .iter()
        .filter(|member| member.is_available())
        .count();
    DatabaseStatus {
        version: same.cloned().or_else(|| old.version.clone()),
        primary: primary.map(|member| member.name.clone()),
        ready_members: i32::try_from(ready).unwrap_or(i32::MAX),
        // The last backup may have been pruned already.
        last_backup: taken.or_else(|| old.last_backup.clone()),
        conditions: old.conditions.clone(),
        ..DatabaseStatus::default()
    }
}

/// Whether the database takes writes.
fn ready(observed: &ObservedState, plan: &Plan) -> Condition {
    let up = observed
        .members
        .iter()
        .filter(|member| member.is_available())
        .count();
    let has_primary = observed
        .members
        .iter()
        .any(|member| member.role == Role::Primary && Member::is_available(member));
    let message = format!("{up} of {} members are ready", observed.count);
    match (has_primary, plan.phase) {
        (true, Phase::Starting) => condition("Ready", true, "Degraded", &message),
        (true, _) => condition("Ready", true, "Running", &message),
        (false, _) => condition("Ready", false, "NoPrimary", &message),
    }
}

/// Whether an upgrade is in progress, and if not, why not.
fn upgrading(database: &Database, plan: &Plan) -> Condition {
    let desired = &database.spec.version;
    let to = |what: &str| format!("version {desired}: {what}");
    if version(database) != *desired {
        let message = to("the running version is newer, and downgrades are not supported");
        return condition("Upgrading", false, "DowngradeRejected", &message);
    }
    match plan.phase {
        Phase::BackingUp => condition(
            "Upgrading",
            true,
            "BackingUp",
            &to("the backup before it is under way"),
        ),
        Phase::Upgrading => condition(
            "Upgrading",
            true,
            "Restarting",
            &to("members are restarted one by one"),
        ),
        Phase::Stuck => condition(
            "Upgrading",
            false,
            "BackupFailed",
            &to("the backup before it failed"),
        ),
        Phase::Running | Phase::Starting => {
            condition("Upgrading", false, "UpToDate", &to("all members run it"))
        }
    }
}

fn record_event(operator: &Operator, database: &TypedObject<Database>, new: &Condition) {
    let is_bad =
        ["NoPrimary", "Degraded", "DowngradeRejected", "BackupFailed"].contains(&new.reason.as_str());
    match is_bad {
        true => operator
            .events
            .warning(database, &new.reason, new.message.as_str()),
        false => operator
            .events
            .normal(database, &new.reason, new.message.as_str()),
    }
}
