//! `cargo xtask test`: all tests, with the third-party components they need.
//!
//! A step is a row in `steps::all`, a component a row in `component::ALL`. A step needs a component when its tests
//! read the variable that holds the component's path, so nothing is declared twice. A component that is missing
//! skips its step, visibly; under `CI=true` a missing component that is required fails it. Nothing here retries.
//! Start reading at `steps.rs`.

mod client;
mod component;
mod conformance;
mod outcome;
mod package;
mod steps;
mod time_limit;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};

use component::Component;
use outcome::{Outcome, Summary};
use steps::Step;
pub(crate) use time_limit::{COMMAND as LIMIT_COMMAND, run_limited};

/// Runs the selected steps in order and prints the outcome of each.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<ExitCode> {
    let all = steps::all(root)?;
    let unused = unused(&all);
    let steps = selected(all, args)?;
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    let mut summary = Summary::default();
    for step in &steps {
        println!("\n=== {} ===", step.name);
        let started = now();
        let outcome = attempt(root, step, is_ci);
        summary.add(step.name, outcome, started.elapsed());
    }
    println!("\nnot used by any test yet: {unused}");
    println!("\n{summary}");
    Ok(summary.exit_code())
}

/// Runs `setpoint-soak` with these arguments.
pub(crate) fn run_soak(root: &Path, args: &[String]) -> ExitCode {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match conformance::run_soak(root, &args) {
        Outcome::Passed => ExitCode::SUCCESS,
        Outcome::Skipped(reason) | Outcome::Failed(reason) => {
            eprintln!("soak: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn selected(steps: Vec<Step>, args: &[String]) -> Result<Vec<Step>> {
    let name = match args {
        [] => return Ok(steps),
        [flag, name] if flag == "--only" => name,
        _ => bail!("unknown arguments {args:?}: expected `--only NAME`"),
    };
    let known: Vec<&str> = steps.iter().map(|step| step.name).collect();
    if !known.contains(&name.as_str()) {
        bail!("unknown step {name:?}; the steps are {}", known.join(", "));
    }
    Ok(steps.into_iter().filter(|step| step.name == name).collect())
}

/// Components that no step needs, printed so that their absence is not taken for a pass.
fn unused(steps: &[Step]) -> String {
    let is_needed = |component: &&&Component| steps.iter().any(|step| step.needs.contains(component));
    let names: Vec<&str> = component::ALL
        .iter()
        .filter(|component| !is_needed(component))
        .map(|component| component.name)
        .collect();
    if names.is_empty() {
        "nothing".to_owned()
    } else {
        names.join(", ")
    }
}

/// Finds the components of the step, then runs it.
fn attempt(root: &Path, step: &Step, is_ci: bool) -> Outcome {
    let mut variables = Vec::new();
    for component in &step.needs {
        match component.find_or_install() {
            Ok(path) => variables.push((component.variable, path)),
            Err(why) => return without(component, &why, is_ci),
        }
    }
    step.run(root, &variables)
}

fn without(component: &Component, why: &str, is_ci: bool) -> Outcome {
    let reason = format!("no {}: {why}", component.name);
    if is_ci && component.required {
        Outcome::Failed(reason)
    } else {
        Outcome::Skipped(reason)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the duration of a step is measured by the system clock"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_without(required: bool, is_ci: bool, expected: &str) {
        let component = Component {
            name: "component",
            variable: "A",
            program: "a",
            package: None,
            also_needs: &[],
            required,
        };
        assert_eq!(without(&component, "why", is_ci).to_string(), expected);
    }

    #[test]
    fn a_missing_component_skips_its_step() {
        check_without(true, false, "skipped (no component: why)");
        check_without(false, true, "skipped (no component: why)");
    }

    #[test]
    fn a_missing_required_component_fails_under_ci() {
        check_without(true, true, "failed (no component: why)");
    }

    #[test]
    fn one_step_can_be_selected_and_an_unknown_one_is_rejected() {
        let steps = || vec![Step::empty("unit"), Step::empty("e2e")];
        let args = |name: &str| vec!["--only".to_owned(), name.to_owned()];
        assert_eq!(selected(steps(), &[]).unwrap().len(), 2);
        assert_eq!(selected(steps(), &args("e2e")).unwrap()[0].name, "e2e");
        assert!(selected(steps(), &args("e3e")).is_err());
    }
}
