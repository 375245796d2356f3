//! Verification of packages: errors that an installation would meet, and warnings about what is not used.

use std::collections::BTreeSet;

use super::files::PackageFiles;
use super::resources::check_task;
use super::semver::Version;
use crate::api::plans;
use crate::parameters;
use crate::render::{self, Variables};

/// The findings of a verification.
#[allow(missing_docs, reason = "the fields are named by their contents")]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    pub warnings: Vec<String>,
    pub errors: Vec<String>,
}

/// Verifies a package.
pub fn verify(files: &PackageFiles) -> Verification {
    let mut found = Verification::default();
    verify_parameters(files, &mut found);
    verify_versions(files, &mut found);
    verify_plans(files, &mut found);
    let tasks = files.operator.tasks.iter();
    found
        .errors
        .extend(tasks.flat_map(|task| check_task(task, files)));
    verify_templates(files, &mut found);
    found
}

fn verify_parameters(files: &PackageFiles, found: &mut Verification) {
    let mut names = BTreeSet::new();
    for parameter in &files.params.parameters {
        let name = &parameter.name;
        if !names.insert(name.to_lowercase()) {
            found.errors.push(format!("parameter {name:?} has a duplicate"));
        }
        for char in name.to_lowercase().chars().filter(|char| ":,".contains(*char)) {
            found
                .errors
                .push(format!("parameter {name:?} contains invalid character {char:?}"));
        }
        if !parameter.trigger.is_empty() && !files.operator.plans.contains_key(&parameter.trigger) {
            let trigger = &parameter.trigger;
            found.errors.push(format!(
                "plan {trigger:?} used in parameter {name:?} is not defined"
            ));
        }
        if let (Some(default), Some(value_type)) = (&parameter.default, parameter.value_type) {
            let text = parameters::wrap_value(default, parameter.value_type)
                .ok()
                .flatten()
                .unwrap_or_default();
            if let Err(error) = parameters::check_type(value_type, &text) {
                found.errors.push(format!(
                    "parameter {name:?} has an invalid default value: {error}"
                ));
            }
        }
    }
}

fn verify_versions(files: &PackageFiles, found: &mut Verification) {
    let operator = &files.operator;
    let versions = [
        ("operatorVersion", &operator.operator_version, true),
        ("appVersion", &operator.app_version, false),
        ("kubernetesVersion", &operator.kubernetes_version, true),
        ("kudoVersion", &operator.kudo_version, false),
    ];
    for (name, version, is_required) in versions {
        match (version.trim(), is_required) {
            ("", true) => found
                .errors
                .push(format!("{name:?} is required and must be semver")),
            ("", false) => {}
            (version, _) => {
                let parsed = Version::parse(version);
                found.errors.extend(
                    parsed
                        .err()
                        .map(|error| format!("unable to parse {name:?}: {error}")),
                );
            }
        }
    }
}

fn verify_plans(files: &PackageFiles, found: &mut Verification) {
    let operator = &files.operator;
    if !operator.plans.contains_key(plans::DEPLOY) {
        let message = format!("an operator is required to have '{}' plan", plans::DEPLOY);
        found.errors.push(message);
    }
    let mut used = BTreeSet::new();
    for (name, plan) in &operator.plans {
        let steps = plan.phases.iter().flat_map(|phase| &phase.steps);
        for task in steps.flat_map(|step| &step.tasks) {
            used.insert(task.as_str());
            if !operator.tasks.iter().any(|own| own.name == *task) {
                found
                    .errors
                    .push(format!("task {task:?} in plan {name:?} is not defined"));
            }
        }
    }
    let unused = operator
        .tasks
        .iter()
        .filter(|task| !used.contains(task.name.as_str()));
    let unused = unused.map(|task| format!("task {:?} defined but not used", task.name));
    found.warnings.extend(unused);
}

fn verify_templates(files: &PackageFiles, found: &mut Verification) {
    let tasks = files.operator.tasks.iter();
    let used: BTreeSet<&String> = tasks
        .flat_map(|task| {
            [&task.spec.pod, &task.spec.parameter_file]
                .into_iter()
                .chain(&task.spec.resources)
        })
        .chain([&files.operator.namespace_manifest])
        .collect();
    let unused = files.templates.keys().filter(|name| !used.contains(name));
    let unused = unused.map(|name| format!("template {name:?} is not referenced from any task"));
    found.warnings.extend(unused);
    let texts: String = files.templates.values().map(String::as_str).collect();
    for parameter in &files.params.parameters {
        let name = &parameter.name;
        let toggles = files
            .operator
            .tasks
            .iter()
            .any(|task| task.spec.parameter == *name);
        if !texts.contains(name.as_str()) && !toggles {
            found
                .warnings
                .push(format!("parameter {name:?} defined but not used."));
        }
    }
    let variables = defaults(files);
    for (name, text) in &files.templates {
        if let Err(error) = render::render(name, text, &variables) {
            found
                .errors
                .push(format!("rendering of template {name:?} failed: {error}"));
        }
    }
}

/// Values for all that templates may use. Parameters without a default have an empty one.
fn defaults(files: &PackageFiles) -> Variables {
    let names = [
        "OperatorName",
        "Name",
        "Namespace",
        "AppVersion",
        "OperatorVersion",
        "PlanName",
        "PhaseName",
        "StepName",
    ];
    let value = |parameter: &super::files::PackageParameter| {
        let default = parameter.default.clone().unwrap_or_default();
        let text = parameters::wrap_value(&default, parameter.value_type)
            .ok()
            .flatten()
            .unwrap_or_default();
        let value = parameters::unwrap_value(&text, parameter.value_type).unwrap_or_default();
        (parameter.name.clone(), value)
    };
    let pipes = files.operator.tasks.iter().flat_map(|task| &task.spec.pipe);
    Variables {
        facts: names.map(|name| (name, name.to_owned())).into(),
        parameters: files.params.parameters.iter().map(value).collect(),
        pipes: pipes.map(|pipe| (pipe.key.clone(), pipe.key.clone())).collect(),
        now: Some(jiff::Timestamp::UNIX_EPOCH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(operator: &str, params: &str, errors: &[&str], warnings: &[&str]) {
        let contents = [
            ("operator.yaml", operator),
            ("params.yaml", params),
            ("templates/a.yaml", "{{ .Params.A }}"),
        ];
        let contents = contents.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
        let found = verify(&PackageFiles::parse(&contents.into()).unwrap());
        assert_eq!(found.errors, errors);
        assert_eq!(found.warnings, warnings);
    }

    const OPERATOR: &str = "{name: db, operatorVersion: '1.0', kubernetesVersion: '1.20', tasks: [{name: t, kind: Apply, spec: {resources: [a.yaml]}}], plans: {deploy: {phases: [{name: p, steps: [{name: s, tasks: [t]}]}]}}}";

    /// TO7
    #[test]
    fn a_package_without_mistakes_is_valid() {
        check(OPERATOR, "parameters: [{name: A, default: x}]", &[], &[]);
    }

    /// TO7
    #[test]
    fn mistakes_are_reported_together() {
        check(
            &OPERATOR
                .replace("deploy", "install")
                .replace("[t]", "[u]")
                .replace("'1.0'", "x"),
            "parameters: [{name: B, trigger: nope, type: integer, default: z}]",
            &[
                "plan \"nope\" used in parameter \"B\" is not defined",
                "parameter \"B\" has an invalid default value: type is \"integer\" but format of \"z\" is invalid: strconv.ParseInt: parsing \"z\": invalid syntax",
                "unable to parse \"operatorVersion\": Invalid Semantic Version",
                "an operator is required to have 'deploy' plan",
                "task \"u\" in plan \"install\" is not defined",
                "rendering of template \"a.yaml\" failed: error rendering template: template: a.yaml:1:10: executing \"a.yaml\" at <.Params.A>: map has no entry for key \"A\"",
            ],
            &[
                "task \"t\" defined but not used",
                "parameter \"B\" defined but not used.",
            ],
        );
    }
}
