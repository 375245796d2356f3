//! The plan engine: runs the plans of Instances, step by step.
//!
//! `workflow` decides which step is next, a pure function of the plan and its status. `status` has the rules of the status,
//! `controller` reads, runs the tasks of the step and writes the status, before it goes on to the next step. [`manager`]
//! puts controller and admission webhook together.

mod controller;
pub mod manager;
mod plan_pass;
mod readiness;
mod status;
mod workflow;
mod write;

#[cfg(test)]
mod crash_tests;
