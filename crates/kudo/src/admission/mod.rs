//! Admission of Instances: which plan a change starts, and which changes are rejected.
//!
//! The rules are pure functions of the old and the new Instance and their OperatorVersions. As upstream, the engine serves
//! them as a mutating webhook (`webhook`), so that the user who makes a change sees why it is rejected. One plan runs at a
//! time; only the cleanup plan of an Instance that is being deleted replaces another.

mod parameter_changes;
mod webhook;

use crate::api::{ExecutionStatus, Instance, OperatorVersion, plans};
use crate::parameters;
use parameter_changes::ParameterChanges;

pub(crate) use webhook::{PATH, webhooks};

/// Admits a new Instance: schedules its deploy plan, and sets the defaults of immutable parameters.
pub fn admit_create(instance: &mut Instance, version: &OperatorVersion, uid: String) -> Result<(), String> {
    let key = format!("{}/{}", instance.namespace(), instance.name());
    if version.spec.plans.contains_key(plans::CLEANUP) {
        instance.add_cleanup_finalizer();
    }
    if !version.spec.plans.contains_key(plans::DEPLOY) {
        return Err(format!(
            "failed to create an Instance {key}: couldn't find '{}' plan in the operatorVersion",
            plans::DEPLOY
        ));
    }
    let execution = &mut instance.spec.plan_execution;
    plans::DEPLOY.clone_into(&mut execution.plan_name);
    execution.uid = uid;
    for parameter in version
        .spec
        .parameters
        .iter()
        .filter(|parameter| parameter.is_immutable())
    {
        if let Some(default) = &parameter.default {
            let values = &mut instance.spec.parameters;
            values
                .entry(parameter.name.clone())
                .or_insert_with(|| default.clone());
        }
    }
    parameters::validate(version, instance)
        .map_err(|error| format!("failed to create an Instance {key}: parameters are not valid: {error}"))
}

/// Admits a changed Instance: schedules the plan that the change starts, or removes a plan that has ended.
pub fn admit_update(
    old: &Instance,
    new: &mut Instance,
    (old_version, version): (&OperatorVersion, &OperatorVersion),
    uid: String,
) -> Result<(), String> {
    let plan = triggered_plan(old, new, (old_version, version))?;
    let Some(plan) = plan else { return Ok(()) };
    let is_scheduled = !plan.is_empty();
    let execution = &mut new.spec.plan_execution;
    execution.plan_name = plan;
    execution.uid = if is_scheduled { uid } else { String::new() };
    execution.status = is_scheduled.then_some(ExecutionStatus::NeverRun);
    Ok(())
}

/// The plan that a change starts. Empty: the plan has ended, and none is to run. `None`: nothing changes.
fn triggered_plan(
    old: &Instance,
    new: &mut Instance,
    (old_version, version): (&OperatorVersion, &OperatorVersion),
) -> Result<Option<String>, String> {
    let (mut old_plan, mut new_plan) = (scheduled_plan(old), scheduled_plan(new));
    if !new_plan.is_empty() && !version.spec.plans.contains_key(&new_plan) {
        return Err(format!("plan {new_plan} does not exist"));
    }
    if has_ended(old) {
        let (old, new) = (&old.spec.plan_execution, &new.spec.plan_execution);
        if (&old.plan_name, &old.uid) == (&new.plan_name, &new.uid) {
            new_plan.clear();
        }
        old_plan.clear();
    }
    let key = format!("{}/{}", old.namespace(), old.name());
    let failed = |error: String| format!("failed to update Instance {key}: {error}");
    let is_upgrade = new.spec.operator_version != old.spec.operator_version;
    let changes = ParameterChanges::of(old, new, (old_version, version)).map_err(failed)?;
    changes
        .check_immutable(old, new, is_upgrade.then_some((old_version, version)))
        .map_err(|error| format!("failed to check immutable parameters for Instance {key}: {error}"))?;
    parameters::validate(version, new)
        .map_err(|error| format!("failed to validate parameters for Instance {key}: {error}"))?;
    let change = Change {
        old_plan: &old_plan,
        new_plan: &new_plan,
        triggered: changes.triggered_plan(version).map_err(failed)?,
        is_upgrade,
        operator_version: new.operator_version_name(),
    };
    if new.is_deleting() {
        return change.check_deleting().map_err(failed).map(|()| None);
    }
    change.check().map_err(failed)?;
    change.plan(old, new, version).map_err(failed)
}

fn scheduled_plan(instance: &Instance) -> String {
    instance.spec.plan_execution.plan_name.clone()
}

/// Whether the plan that is scheduled has ended by the status, which the engine writes first: a user who has seen that the
/// plan is complete may make the next change, before the engine has removed the plan from the spec.
fn has_ended(instance: &Instance) -> bool {
    let execution = &instance.spec.plan_execution;
    let status = instance.status.plan_status.get(&execution.plan_name);
    status.is_some_and(|status| status.uid == execution.uid && status.status.is_terminal())
}

/// A change of an Instance.
#[derive(Debug)]
struct Change<'a> {
    /// The plan that is scheduled; empty for none.
    old_plan: &'a str,
    new_plan: &'a str,
    /// The plan that changed parameters start.
    triggered: Option<String>,
    is_upgrade: bool,
    operator_version: &'a str,
}

impl Change<'_> {
    /// An Instance that is being deleted runs its cleanup plan and no other.
    fn check_deleting(&self) -> Result<(), String> {
        let cleanup = plans::CLEANUP;
        if self.old_plan == cleanup && self.new_plan != self.old_plan {
            return Err(format!(
                "'{cleanup}' plan can not be cancelled or overridden by another plan since the instance is being deleted"
            ));
        }
        if self.triggered.is_some() || self.is_upgrade {
            return Err(
                "parameter update and/or upgrade is not allowed when an instance is being deleted".to_owned(),
            );
        }
        match self.new_plan.is_empty() || self.new_plan == cleanup {
            true => Ok(()),
            false => Err(format!(
                "only '{cleanup}' plan can be scheduled when an instance is being deleted"
            )),
        }
    }

    fn check(&self) -> Result<(), String> {
        let Self {
            old_plan,
            new_plan,
            operator_version: version,
            ..
        } = self;
        let (had_plan, has_plan) = (!old_plan.is_empty(), !new_plan.is_empty());
        let is_novel = !had_plan && has_plan;
        let upgrade = format!("upgrade to new OperatorVersion {version}");
        let error = match &self.triggered {
            Some(plan) if had_plan && plan != old_plan => format!(
                "plan '{old_plan}' is scheduled (or running) and an update would trigger a different plan '{plan}'"
            ),
            _ if self.is_upgrade && had_plan => {
                format!("{upgrade} while a plan '{old_plan}' is scheduled (or running) is not allowed")
            }
            _ if self.is_upgrade && is_novel => {
                format!("{upgrade} and triggering new plan '{new_plan}' is not allowed")
            }
            Some(plan) if self.is_upgrade && plan != plans::DEPLOY => {
                format!("{upgrade} together with a parameter update triggering '{plan}' is not allowed")
            }
            _ if had_plan && has_plan && new_plan != old_plan => format!(
                "overriding currently scheduled (or running) plan '{old_plan}' with '{new_plan}' is not supported"
            ),
            _ if had_plan && !has_plan => {
                format!("cancelling currently scheduled (or running) plan '{old_plan}' is not supported")
            }
            Some(_) if is_novel => format!(
                "triggering one plan '{old_plan}' directly and through parameter update '{new_plan}' is not allowed"
            ),
            _ if *new_plan == plans::CLEANUP => {
                format!("only the controller schedules the '{new_plan}' plan when the instance is deleted")
            }
            _ => return Ok(()),
        };
        Err(error)
    }

    fn plan(
        &self,
        old: &Instance,
        new: &Instance,
        version: &OperatorVersion,
    ) -> Result<Option<String>, String> {
        let execution = &new.spec.plan_execution;
        if self.is_upgrade {
            let plan = version.select_plan(&[plans::UPGRADE, plans::UPDATE, plans::DEPLOY]);
            let plan = plan.ok_or(
                "couldn't find any suitable plan that would be triggered by an OperatorVersion upgrade",
            )?;
            return Ok(Some(plan.to_owned()));
        }
        if self.triggered.is_some() {
            return Ok(self.triggered.clone());
        }
        let is_novel = self.old_plan.is_empty() && !self.new_plan.is_empty();
        let is_terminal = execution.status.is_some_and(ExecutionStatus::is_terminal);
        let is_retriggered = !self.new_plan.is_empty() && execution.uid != old.spec.plan_execution.uid;
        Ok(match (is_novel, is_terminal, is_retriggered) {
            (true, ..) => Some(self.new_plan.to_owned()),
            (_, true, _) => Some(String::new()),
            (_, _, true) => Some(self.new_plan.to_owned()),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
