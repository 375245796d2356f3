//! Tasks of steps. Each runs again and again until it is done, so each may run any number of times.

mod apply;
mod delete;
mod kudo_operator;
mod pipe;

use std::collections::BTreeMap;

use serde_json::Value;
use setpoint_api::{Clock, Status};
use setpoint_client::Http;
use setpoint_kuttl::{ObjectClient, manifest};

use crate::api::Task;
use crate::dependency_hash;
use crate::enhance::{self, TaskMetadata};
use crate::parameters::parse_bool;
use crate::render::{self, Variables};

pub(crate) use pipe::artifact_name;

/// What a task needs.
#[derive(Debug)]
pub(crate) struct TaskContext<'a> {
    pub(crate) objects: &'a ObjectClient,
    /// For commands in pods.
    pub(crate) http: &'a Http,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) metadata: TaskMetadata,
    pub(crate) templates: &'a BTreeMap<String, String>,
    pub(crate) variables: Variables,
}

/// Why a task failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TaskError {
    /// A retry would fail again: the plan ends. The event has this reason.
    Fatal { reason: &'static str, message: String },
    /// It is tried again.
    Transient(String),
}

/// Whether a task is done, or waits for its objects.
pub(crate) type TaskResult = Result<bool, TaskError>;

/// Runs a task.
pub(crate) async fn run(context: &TaskContext<'_>, task: &Task) -> TaskResult {
    check(task).map_err(|cause| context.build_error(&cause))?;
    match task.kind.as_str() {
        "Apply" => apply::run(context, &task.spec.resources).await,
        "Delete" => delete::run(context, &task.spec.resources).await,
        "Toggle" => toggle(context, task).await,
        "Dummy" => dummy(context, task),
        "KudoOperator" => kudo_operator::run(context, &task.spec).await,
        _ => pipe::run(context, &task.spec).await,
    }
}

/// Checks that a task has what its kind needs.
fn check(task: &Task) -> Result<(), String> {
    let (spec, name) = (&task.spec, &task.name);
    let error = |message: &str| Err(format!("task validation error: {message}"));
    let has_none = spec.resources.is_empty();
    match task.kind.as_str() {
        "Apply" | "Delete" if has_none => {
            let kind = task.kind.to_lowercase();
            error(&format!(
                "{kind} task '{name}' has an empty resource list. if that's what you need, use a Dummy task instead"
            ))
        }
        "Toggle" if has_none => {
            error("toggle task has an empty resource list. if that's what you need, use a Dummy task instead")
        }
        "Toggle" if spec.parameter.is_empty() => error("Missing parameter to evaluate the Toggle Task"),
        "KudoOperator" if spec.package.is_empty() => {
            error(&format!("kudo operator task '{name}' has an empty package name"))
        }
        "KudoOperator" if spec.operator_version.is_empty() => error(&format!(
            "kudo operator task '{name}' has an empty operatorVersion"
        )),
        "Pipe" => pipe::check(&spec.pipe),
        "Apply" | "Delete" | "Toggle" | "Dummy" | "KudoOperator" => Ok(()),
        kind => Err(format!("unknown task kind {kind}")),
    }
}

/// Applies or deletes the resources, by the value of a parameter.
async fn toggle(context: &TaskContext<'_>, task: &Task) -> TaskResult {
    let name = &task.spec.parameter;
    let fatal = |message: String| context.fatal("ToggleTaskError", &message);
    let Some(value) = context.variables.parameters.get(name) else {
        return Err(fatal(format!("no value for parameter {name} found")));
    };
    let Some(text) = value.as_str() else {
        return Err(fatal(format!("value of parameter {name} isn't a string")));
    };
    match parse_bool(text) {
        Some(true) => apply::run(context, &task.spec.resources).await,
        Some(false) => delete::run(context, &task.spec.resources).await,
        None => Err(fatal(format!(
            "could not parse value of parameter {name}: strconv.ParseBool: parsing {text:?}: invalid syntax"
        ))),
    }
}

/// Does nothing, and succeeds or fails as its fields specify.
fn dummy(context: &TaskContext<'_>, task: &Task) -> TaskResult {
    match (task.spec.want_err, task.spec.fatal) {
        (true, true) => Err(context.fatal("DummyTaskError", "dummy error")),
        (true, false) => Err(TaskError::Transient("dummy error".to_owned())),
        (false, _) => Ok(task.spec.done),
    }
}

impl TaskContext<'_> {
    /// The objects of templates, in the order of their names, with the conventions of KUDO.
    async fn render_objects(
        &self,
        resources: &[String],
        unknown: UnknownKinds,
    ) -> Result<Vec<Value>, TaskError> {
        let mut objects = Vec::new();
        for name in resources {
            let text = self.render(name)?;
            let parsed = manifest::parse_objects(&text);
            let parsed = parsed.map_err(|error| {
                self.fatal(
                    "TaskRenderingError",
                    &format!("fatal error: parsing YAML from {name}: {error}"),
                )
            })?;
            objects.extend(parsed);
        }
        self.enhance(objects, unknown).await
    }

    fn render(&self, name: &str) -> Result<String, TaskError> {
        let rendered = match self.templates.get(name) {
            None => Err(format!("error finding resource named {name}")),
            Some(text) => render::render(name, text, &self.variables)
                .map_err(|error| format!("error expanding template {name}: {error}")),
        };
        rendered.map_err(|error| self.fatal("TaskRenderingError", &error))
    }

    /// Adds labels, annotations, owner and hashes.
    async fn enhance(&self, objects: Vec<Value>, unknown: UnknownKinds) -> Result<Vec<Value>, TaskError> {
        let mut enhanced = Vec::new();
        for mut object in objects {
            let is_namespaced = match (self.objects.resource(&object).await, unknown) {
                (Ok(resource), _) => resource.namespaced,
                (Err(status), UnknownKinds::Skip) if status.code == 400 => continue,
                (Err(status), _) if status.code == 400 => {
                    let kind = object["kind"].as_str().unwrap_or_default();
                    let message =
                        format!("fatal error: failed to determine if object {kind} is namespaced: {status}");
                    return Err(self.fatal("TaskEnhancementError", &message));
                }
                (Err(status), _) => return Err(status.into()),
            };
            enhance::add_labels(&mut object, &self.metadata);
            if is_namespaced {
                let owned = enhance::set_owner(&mut object, &self.metadata);
                owned.map_err(|error| self.fatal("TaskEnhancementError", &error))?;
            }
            enhanced.push(object);
        }
        let hashed = dependency_hash::add_hashes(&mut enhanced, self.objects).await;
        hashed
            .map_err(|status| TaskError::Transient(format!("failed to add dependencies hash: {status}")))?;
        Ok(enhanced)
    }

    /// An error that ends the plan.
    fn fatal(&self, reason: &'static str, cause: &str) -> TaskError {
        let TaskMetadata {
            namespace,
            instance,
            plan,
            phase,
            step,
            task,
            ..
        } = &self.metadata;
        let message = format!(
            "Error during execution: fatal error: {namespace}/{instance} failed in {plan}.{phase}.{step}.{task}: {cause}"
        );
        TaskError::Fatal { reason, message }
    }

    fn build_error(&self, cause: &str) -> TaskError {
        let TaskMetadata {
            namespace,
            instance,
            plan,
            phase,
            step,
            task,
            ..
        } = &self.metadata;
        let message = format!(
            "Error during execution: {namespace}/{instance} fatal error:  failed to build task {plan}.{phase}.{step}.{task}: {cause}"
        );
        TaskError::Fatal {
            reason: "TaskBuildError",
            message,
        }
    }
}

/// What happens to objects whose kind the server does not serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnknownKinds {
    /// They are an error that ends the plan.
    Fail,
    /// There is nothing to delete.
    Skip,
}

impl From<Status> for TaskError {
    fn from(status: Status) -> Self {
        Self::Transient(status.message)
    }
}

#[cfg(test)]
mod tests {
    use setpoint_kuttl::manifest;

    use super::*;

    #[track_caller]
    fn verify(task: &str, expected: Result<(), &str>) {
        let task: Task = serde_json::from_value(manifest::parse_value(task).unwrap()).unwrap();
        let outcome = check(&task);
        assert_eq!(outcome.as_ref().copied().map_err(String::as_str), expected);
    }

    /// TO7
    #[test]
    fn a_task_has_the_fields_of_its_kind() {
        verify("{name: a, kind: Apply, spec: {resources: [x]}}", Ok(()));
        verify(
            "{name: a, kind: Delete, spec: {}}",
            Err(
                "task validation error: delete task 'a' has an empty resource list. if that's what you need, use a Dummy task instead",
            ),
        );
        verify(
            "{name: a, kind: Toggle, spec: {resources: [x]}}",
            Err("task validation error: Missing parameter to evaluate the Toggle Task"),
        );
        verify(
            "{name: a, kind: KudoOperator, spec: {package: p}}",
            Err("task validation error: kudo operator task 'a' has an empty operatorVersion"),
        );
        verify("{name: a, kind: Nap}", Err("unknown task kind Nap"));
    }
}
