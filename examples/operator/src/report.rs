//! What users are told: the status, its conditions, and an event when they change.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use setpoint_runtime::Typed;
use setpoint_runtime::conditions::{self, condition};
use setpoint_runtime::reconcile::Error;

use crate::controller::{Operator, version};
use crate::database::{Database, DatabaseStatus};
use crate::observe;
use crate::plan::{Member, Phase, Plan, Role, World};

/// Writes the status, if it says something new.
pub(crate) async fn report(
    operator: &Operator,
    database: &Typed<Database>,
    world: &World,
    plan: &Plan,
    jobs: &[Arc<Job>],
) -> Result<(), Error> {
    let mut told = database.to_owned()?;
    let old = told.status.clone().unwrap_or_default();
    let mut status = facts(&old, world, jobs);
    status.observed_generation = told.metadata.generation.unwrap_or(0);
    let now = operator.context.clock.now();
    for new in [ready(world, plan), upgrading(&told, plan)] {
        let reason = conditions::find(&old.conditions, &new.type_).map(|old| old.reason.clone());
        if reason.as_ref() != Some(&new.reason) {
            tell(operator, database, &new);
        }
        conditions::set(&mut status.conditions, new, now);
    }
    if told.status.as_ref() == Some(&status) {
        return Ok(());
    }
    told.status = Some(status);
    let databases = operator
        .context
        .client
        .namespaced::<Database>(database.key().namespace());
    databases.update_status(&told).await?;
    Ok(())
}

fn facts(old: &DatabaseStatus, world: &World, jobs: &[Arc<Job>]) -> DatabaseStatus {
    let primary = world
        .members
        .iter()
        .find(|member| member.role == Role::Primary && member.is_up());
    let first = world.members.first().map(|member| &member.version);
    let same = first.filter(|version| world.members.iter().all(|member| member.version == **version));
    let taken = jobs
        .iter()
        .filter_map(|job| observe::taken_at(job))
        .max()
        .map(Time);
    let ready = world.members.iter().filter(|member| member.is_up()).count();
    DatabaseStatus {
        version: same.cloned().or_else(|| old.version.clone()),
        primary: primary.map(|member| member.name.clone()),
        ready_members: i32::try_from(ready).unwrap_or(i32::MAX),
        // Backups that were let go have been taken all the same.
        last_backup: taken.or_else(|| old.last_backup.clone()),
        conditions: old.conditions.clone(),
        ..DatabaseStatus::default()
    }
}

/// Whether the database takes writes.
fn ready(world: &World, plan: &Plan) -> Condition {
    let up = world.members.iter().filter(|member| member.is_up()).count();
    let has_primary = world
        .members
        .iter()
        .any(|member| member.role == Role::Primary && Member::is_up(member));
    let message = format!("{up} of {} members are ready", world.count);
    match (has_primary, plan.phase) {
        (true, Phase::Starting) => condition("Ready", true, "Degraded", &message),
        (true, _) => condition("Ready", true, "Running", &message),
        (false, _) => condition("Ready", false, "NoPrimary", &message),
    }
}

/// Whether another version is on its way, and if not, why not.
fn upgrading(database: &Database, plan: &Plan) -> Condition {
    let wanted = &database.spec.version;
    let to = |what: &str| format!("version {wanted}: {what}");
    if version(database) != *wanted {
        let message = to("what runs is newer, and there is no way back");
        return condition("Upgrading", false, "DowngradeRefused", &message);
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

fn tell(operator: &Operator, database: &Typed<Database>, new: &Condition) {
    let is_bad = ["NoPrimary", "Degraded", "DowngradeRefused", "BackupFailed"].contains(&new.reason.as_str());
    match is_bad {
        true => operator
            .events
            .warning(database, &new.reason, new.message.as_str()),
        false => operator
            .events
            .normal(database, &new.reason, new.message.as_str()),
    }
}
