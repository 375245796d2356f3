//! The order of steps: which one is next, and what its outcome means for its phase and its plan.

use std::collections::BTreeSet;

use crate::api::{ExecutionOrder, ExecutionStatus, PhaseStatus, Plan, PlanStatus};

/// The index of a phase and of a step in it.
pub(super) type StepIndex = (usize, usize);

/// The outcome of one attempt of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StepOutcome {
    /// All its tasks are done.
    Done,
    /// Some of its tasks wait for their objects.
    Waiting,
    /// A task failed and is tried again.
    Failed(String),
    /// A task failed for ever: the plan ends.
    Fatal(String),
}

/// The next step that may run and has not been attempted yet. A serial phase waits for each step, a serial plan for each
/// phase. The status must have the phases and steps of the plan, in their order.
pub(super) fn next_step(
    plan: &Plan,
    status: &PlanStatus,
    attempted: &BTreeSet<StepIndex>,
) -> Option<StepIndex> {
    if status.status.is_terminal() {
        return None;
    }
    for (i, (phase, phase_status)) in plan.phases.iter().zip(&status.phases).enumerate() {
        if phase_status.status == ExecutionStatus::Complete {
            continue;
        }
        for (j, step) in phase_status.steps.iter().enumerate() {
            let is_attempted = attempted.contains(&(i, j));
            match step.status == ExecutionStatus::Complete {
                true => {}
                false if !is_attempted => return Some((i, j)),
                false if phase.strategy == ExecutionOrder::Serial => break,
                false => {}
            }
        }
        if plan.strategy == ExecutionOrder::Serial && !is_complete(phase_status) {
            return None;
        }
    }
    None
}

/// Marks a step as running.
pub(super) fn start(status: &mut PlanStatus, (phase, step): StepIndex) {
    set(
        &mut status.status,
        &mut status.message,
        ExecutionStatus::InProgress,
    );
    let phase = &mut status.phases[phase];
    set(&mut phase.status, &mut phase.message, ExecutionStatus::InProgress);
    let step = &mut phase.steps[step];
    set(&mut step.status, &mut step.message, ExecutionStatus::InProgress);
}

/// Records the outcome of a step.
pub(super) fn record(status: &mut PlanStatus, (phase, step): StepIndex, outcome: StepOutcome) {
    let step = &mut status.phases[phase].steps[step];
    match outcome {
        StepOutcome::Done => set(&mut step.status, &mut step.message, ExecutionStatus::Complete),
        StepOutcome::Waiting => {}
        StepOutcome::Failed(message) => (step.status, step.message) = (ExecutionStatus::Error, message),
        StepOutcome::Fatal(message) => {
            (step.status, step.message) = (ExecutionStatus::FatalError, message);
            let phase = &mut status.phases[phase];
            set(&mut phase.status, &mut phase.message, ExecutionStatus::FatalError);
            set(
                &mut status.status,
                &mut status.message,
                ExecutionStatus::FatalError,
            );
            return;
        }
    }
    complete(status);
}

/// Marks phases whose steps are all complete, and the plan if all phases are. A plan without steps is complete at once.
pub(super) fn complete(status: &mut PlanStatus) {
    if status.status.is_terminal() {
        return;
    }
    for phase in &mut status.phases {
        if is_complete(phase) {
            set(&mut phase.status, &mut phase.message, ExecutionStatus::Complete);
        }
    }
    if status.phases.iter().all(is_complete) {
        set(&mut status.status, &mut status.message, ExecutionStatus::Complete);
    }
}

fn is_complete(phase: &PhaseStatus) -> bool {
    phase
        .steps
        .iter()
        .all(|step| step.status == ExecutionStatus::Complete)
}

fn set(status: &mut ExecutionStatus, message: &mut String, new: ExecutionStatus) {
    *status = new;
    message.clear();
}

#[cfg(test)]
mod tests {
    use setpoint_kuttl::manifest;

    use super::*;
    use crate::engine::status;

    /// Runs a plan whose steps have these outcomes: `.` done, `w` waits, `e` fails, `f` fails for ever. Returns the order of
    /// the steps, and their status.
    #[track_caller]
    fn check(strategies: [&str; 3], outcomes: &str, order: &str, expected: &str) {
        let [plan, first, second] = strategies;
        let plan = format!(
            "{{strategy: {plan}, phases: [
              {{name: a, strategy: {first}, steps: [{{name: '0'}}, {{name: '1'}}]}},
              {{name: b, strategy: {second}, steps: [{{name: '2'}}, {{name: '3'}}]}}]}}"
        );
        let plan: Plan = serde_json::from_value(manifest::parse_value(&plan).unwrap()).unwrap();
        let mut plan_status = PlanStatus::default();
        status::initialize_plan(&mut plan_status, "deploy", &plan);
        let (mut attempted, mut ran) = (BTreeSet::new(), String::new());
        while let Some(at) = next_step(&plan, &plan_status, &attempted) {
            let name = plan.phases[at.0].steps[at.1].name.clone();
            let outcome = match outcomes.as_bytes()[name.parse::<usize>().unwrap()] {
                b'.' => StepOutcome::Done,
                b'w' => StepOutcome::Waiting,
                b'e' => StepOutcome::Failed("e".to_owned()),
                _ => StepOutcome::Fatal("f".to_owned()),
            };
            ran.push_str(&name);
            attempted.insert(at);
            start(&mut plan_status, at);
            record(&mut plan_status, at, outcome);
        }
        let phases = plan_status.phases.iter().map(|phase| phase.status.as_str());
        let summary = format!(
            "{} {}",
            plan_status.status.as_str(),
            phases.collect::<Vec<_>>().join(" ")
        );
        assert_eq!((ran.as_str(), summary.as_str()), (order, expected));
    }

    /// TO7
    #[test]
    fn serial_steps_wait_for_each_other() {
        let serial = ["serial", "serial", "serial"];
        check(serial, "....", "0123", "COMPLETE COMPLETE COMPLETE");
        check(serial, "w...", "0", "IN_PROGRESS IN_PROGRESS NEVER_RUN");
        check(serial, ".e..", "01", "IN_PROGRESS IN_PROGRESS NEVER_RUN");
    }

    /// TO7
    #[test]
    fn parallel_steps_do_not_wait() {
        check(
            ["serial", "parallel", "serial"],
            "w...",
            "01",
            "IN_PROGRESS IN_PROGRESS NEVER_RUN",
        );
        check(
            ["parallel", "serial", "serial"],
            "w...",
            "023",
            "IN_PROGRESS IN_PROGRESS COMPLETE",
        );
    }

    /// TO7
    #[test]
    fn a_fatal_error_ends_the_plan() {
        check(
            ["parallel", "parallel", "parallel"],
            ".f..",
            "01",
            "FATAL_ERROR FATAL_ERROR NEVER_RUN",
        );
    }
}
