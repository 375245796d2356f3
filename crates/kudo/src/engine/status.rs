//! Status of an Instance: the plans of its OperatorVersion, the start of a plan, and its readiness.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::api::{
    ExecutionStatus, Instance, OperatorVersion, PhaseStatus, Plan, PlanStatus, StepStatus, plans,
};

/// Why an Instance is ready or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readiness {
    PlanInProgress,
    PlanInFatalError,
    ResourceNotReady,
    ResourcesReady,
}

/// The plan that is to run. An Instance that is being deleted gets its cleanup plan here: admission cannot set it.
pub(super) fn schedule(instance: &mut Instance, version: &OperatorVersion, uid: impl FnOnce() -> String) {
    let execution = &instance.spec.plan_execution;
    let has_cleanup = version.spec.plans.contains_key(plans::CLEANUP);
    let is_scheduled = execution.plan_name == plans::CLEANUP;
    if instance.is_deleting() && has_cleanup && instance.is_cleanup_due() && !is_scheduled {
        let execution = &mut instance.spec.plan_execution;
        plans::CLEANUP.clone_into(&mut execution.plan_name);
        execution.uid = uid();
        execution.status = Some(ExecutionStatus::NeverRun);
    }
}

/// Adds the status of plans, phases and steps that have none, in the order of the OperatorVersion.
pub(super) fn initialize(instance: &mut Instance, version: &OperatorVersion) {
    for (name, plan) in &version.spec.plans {
        let status = instance.status.plan_status.entry(name.clone()).or_default();
        initialize_plan(status, name, plan);
    }
}

pub(super) fn initialize_plan(status: &mut PlanStatus, name: &str, plan: &Plan) {
    name.clone_into(&mut status.name);
    let mut old_phases = std::mem::take(&mut status.phases);
    for phase in &plan.phases {
        let old = old_phases.iter_mut().find(|own| own.name == phase.name);
        let mut phase_status = old.map(std::mem::take).unwrap_or_default();
        phase.name.clone_into(&mut phase_status.name);
        let mut old_steps = std::mem::take(&mut phase_status.steps);
        for step in &phase.steps {
            let old = old_steps.iter_mut().find(|own| own.name == step.name);
            let mut step_status = old.map(std::mem::take).unwrap_or_default();
            step.name.clone_into(&mut step_status.name);
            phase_status.steps.push(step_status);
        }
        status.phases.push(phase_status);
    }
}

/// Sets a plan to its start if the execution is a new one. Returns whether it is.
pub(super) fn reset_if_new(status: &mut PlanStatus, uid: &str) -> bool {
    if status.uid == uid {
        return false;
    }
    uid.clone_into(&mut status.uid);
    status.status = ExecutionStatus::Pending;
    status.message.clear();
    for phase in &mut status.phases {
        let steps = std::mem::take(&mut phase.steps)
            .into_iter()
            .map(|step| StepStatus {
                status: ExecutionStatus::Pending,
                message: String::new(),
                ..step
            });
        *phase = PhaseStatus {
            status: ExecutionStatus::Pending,
            message: String::new(),
            name: std::mem::take(&mut phase.name),
            steps: steps.collect(),
        };
    }
    true
}

/// The readiness while a plan runs and at its end. Plans besides deploy, update and upgrade change it at their end only.
pub(super) fn plan_readiness(status: &PlanStatus) -> Option<Readiness> {
    match status.status {
        ExecutionStatus::Complete => Some(Readiness::ResourcesReady),
        ExecutionStatus::FatalError => Some(Readiness::PlanInFatalError),
        _ => [plans::DEPLOY, plans::UPGRADE, plans::UPDATE]
            .contains(&status.name.as_str())
            .then_some(Readiness::PlanInProgress),
    }
}

/// Sets the condition `Ready`.
pub(super) fn set_readiness(instance: &mut Instance, readiness: Readiness, message: &str, now: Timestamp) {
    let status = match readiness {
        Readiness::ResourcesReady => "True",
        Readiness::ResourceNotReady => "False",
        Readiness::PlanInFatalError | Readiness::PlanInProgress => "Unknown",
    };
    let conditions = &mut instance.status.conditions;
    let old = conditions.iter().position(|condition| condition.type_ == "Ready");
    let old = old.map(|at| conditions.remove(at));
    let last_transition_time = match old {
        Some(old) if old.status == status => old.last_transition_time,
        _ => Time(now),
    };
    conditions.push(Condition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: format!("{readiness:?}"),
        message: message.to_owned(),
        last_transition_time,
        observed_generation: None,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(instance: &mut Instance, readiness: Readiness, expected: [&str; 2], since: i64) {
        let now = Timestamp::from_second(since + 100).unwrap();
        set_readiness(instance, readiness, "", now);
        let condition = &instance.status.conditions[0];
        assert_eq!([condition.status.as_str(), condition.reason.as_str()], expected);
        assert_eq!(instance.status.conditions.len(), 1);
    }

    /// TO7
    #[test]
    fn the_condition_has_the_reason_and_the_time_of_its_change() {
        let mut instance = Instance::default();
        check(
            &mut instance,
            Readiness::PlanInProgress,
            ["Unknown", "PlanInProgress"],
            1,
        );
        let since = instance.status.conditions[0].last_transition_time.clone();
        check(
            &mut instance,
            Readiness::PlanInFatalError,
            ["Unknown", "PlanInFatalError"],
            2,
        );
        assert_eq!(instance.status.conditions[0].last_transition_time, since);
        check(
            &mut instance,
            Readiness::ResourcesReady,
            ["True", "ResourcesReady"],
            3,
        );
        assert_ne!(instance.status.conditions[0].last_transition_time, since);
    }

    /// TO7
    #[test]
    fn a_plan_starts_again_with_a_new_uid_only() {
        let mut status = PlanStatus {
            status: ExecutionStatus::Complete,
            uid: "a".to_owned(),
            ..PlanStatus::default()
        };
        assert!(!reset_if_new(&mut status, "a"));
        assert_eq!(status.status, ExecutionStatus::Complete);
        assert!(reset_if_new(&mut status, "b"));
        assert_eq!(status.status, ExecutionStatus::Pending);
    }
}
