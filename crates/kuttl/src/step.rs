//! Steps: loaded from the files of a case, and run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use setpoint_api::options::DeleteOptions;
use setpoint_api::selector::LabelSelector;
use setpoint_api::{Gvk, Status};
use setpoint_client::Patch;

use crate::check;
use crate::config::{Command, ObjectReference, TestAssert, TestStep};
use crate::expressions::Expressions;
use crate::log::Logger;
use crate::manifest;
use crate::object_client::{ObjectClient, gvk_of};
use crate::process::{self, CommandEnv};
use crate::step_file::{Role, StepFile};
use crate::test_file::FileContext;

/// A step of a case.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) settings: TestStep,
    pub(crate) assert: TestAssert,
    pub(crate) expressions: Expressions,
    pub(crate) apply: Vec<Value>,
    pub(crate) asserts: Vec<Value>,
    pub(crate) errors: Vec<Value>,
}

/// What a step needs to run.
#[derive(Debug)]
pub(crate) struct StepContext<'a> {
    pub(crate) objects: &'a ObjectClient,
    pub(crate) env: &'a CommandEnv,
    pub(crate) namespace: &'a str,
    pub(crate) dir: &'a Path,
    /// In seconds.
    pub(crate) timeout: u64,
    pub(crate) logger: Logger,
}

impl Step {
    /// Loads the files of a step.
    pub(crate) fn load(
        index: u32,
        files: &[StepFile],
        dir: &Path,
        file_context: &FileContext,
    ) -> Result<Self> {
        let mut step = Self {
            index,
            ..Self::default()
        };
        for file in files {
            let objects = file_context.read(file)?;
            match &file.role {
                Role::Assert => step.asserts.extend(objects),
                Role::Errors => step.errors.extend(objects),
                Role::Apply(name) => {
                    if step.name.is_empty() {
                        step.name.clone_from(name);
                    }
                    step.apply.extend(objects);
                }
            }
        }
        step.take_settings()?;
        step.load_referenced(dir)?;
        Ok(step)
    }

    /// The name that the log and the report show.
    pub(crate) fn title(&self) -> String {
        format!("{}-{}", self.index, self.name)
    }

    /// Runs the step: deletes, runs commands, applies objects, and checks the result until it is as expected.
    pub(crate) async fn run(&self, context: &StepContext<'_>) -> Vec<anyhow::Error> {
        context.logger.log(format!("starting test step {}", self.title()));
        if let Err(error) = self.delete_existing(context).await {
            return vec![error];
        }
        let mut errors = Vec::new();
        let run = context
            .run_commands(&self.settings.commands, context.timeout)
            .await;
        errors.extend(run.err());
        for object in &self.apply {
            errors.extend(apply(context, object).await.err());
        }
        if !errors.is_empty() {
            return errors;
        }
        let errors = check::until_passed(self, context).await;
        let outcome = if errors.is_empty() { "completed" } else { "failed" };
        context
            .logger
            .log(format!("test step {outcome} {}", self.title()));
        if !errors.is_empty() {
            self.collect(context).await;
        }
        errors
    }

    /// Moves the TestStep and the TestAssert out of the objects.
    fn take_settings(&mut self) -> Result<()> {
        let is_kind =
            |object: &Value, kind: &str| gvk_of(object).group == "kuttl.dev" && object["kind"] == kind;
        let (steps, apply) = self
            .apply
            .drain(..)
            .partition(|object| is_kind(object, "TestStep"));
        let (asserts, expected) = self
            .asserts
            .drain(..)
            .partition(|object| is_kind(object, "TestAssert"));
        (self.apply, self.asserts) = (apply, expected);
        let steps: Vec<Value> = steps;
        if steps.len() > 1 {
            bail!("more than 1 TestStep not allowed in step {:?}", self.name);
        }
        if let Some(step) = steps.first() {
            if let Some(name) = step["metadata"]["name"].as_str() {
                name.clone_into(&mut self.name);
            }
            self.settings = settings(step)?;
        }
        let asserts: Vec<Value> = asserts;
        if let Some(assert) = asserts.last() {
            self.assert = settings(assert)?;
        }
        let assert = &self.assert;
        self.expressions =
            Expressions::compile(&assert.resource_refs, &assert.assert_any, &assert.assert_all)?;
        Ok(())
    }

    fn load_referenced(&mut self, dir: &Path) -> Result<()> {
        let lists = [
            (&self.settings.apply, &mut self.apply),
            (&self.settings.assert, &mut self.asserts),
            (&self.settings.error, &mut self.errors),
        ];
        for (paths, objects) in lists {
            for path in paths {
                let path = process::expand(path, |name| std::env::var(name).unwrap_or_default());
                objects.extend(manifest::read_objects_at(&dir.join(path))?);
            }
        }
        Ok(())
    }

    /// The path of the step's own kubeconfig, if it has one.
    pub(crate) fn kubeconfig(&self, dir: &Path) -> Option<PathBuf> {
        let path = process::expand(&self.settings.kubeconfig, |name| {
            std::env::var(name).unwrap_or_default()
        });
        (!path.is_empty()).then(|| dir.join(path))
    }

    async fn delete_existing(&self, context: &StepContext<'_>) -> Result<()> {
        let mut deleted = Vec::new();
        for reference in &self.settings.delete {
            deleted.extend(context.referenced(reference).await?);
        }
        for object in &deleted {
            let existed = context.objects.delete(object, DeleteOptions::default()).await;
            let existed =
                existed.with_context(|| format!("deleting {} failed", check::resource_id(object)))?;
            let action = if existed { "deleted" } else { "already gone" };
            context
                .logger
                .log(format!("{} {action}", check::resource_id(object)));
        }
        let mut left = context.timeout;
        for object in &deleted {
            while context.objects.find(object).await?.is_some() {
                if left == 0 {
                    bail!(
                        "waiting for {} to be deleted timed out",
                        check::resource_id(object)
                    );
                }
                left -= 1;
                context.env.clock.sleep(Duration::from_secs(1)).await;
            }
        }
        Ok(())
    }

    async fn collect(&self, context: &StepContext<'_>) {
        for collector in &self.assert.collectors {
            let Some(command) = collector.command_line() else {
                context.logger.log("skipping invalid assertion collector");
                continue;
            };
            let command = Command {
                command,
                ..Command::default()
            };
            if let Err(error) = context.run_commands(&[command], context.timeout).await {
                context
                    .logger
                    .log(format!("post assert collector failure: {error}"));
            }
        }
    }
}

impl StepContext<'_> {
    pub(crate) async fn run_commands(&self, commands: &[Command], timeout: u64) -> Result<()> {
        let foreground: Vec<Command> = commands
            .iter()
            .map(|command| Command {
                background: false,
                ..command.clone()
            })
            .collect();
        let target = (self.namespace, self.dir);
        process::run_all(self.env, &foreground, target, timeout, &self.logger).await?;
        Ok(())
    }

    /// An object with the namespace of the case, if it is namespaced and has none.
    pub(crate) async fn with_namespace(&self, object: &Value) -> Result<Value, Status> {
        let mut object = object.clone();
        let is_namespaced = self.objects.resource(&object).await?.namespaced;
        if is_namespaced
            && object["metadata"]["namespace"]
                .as_str()
                .unwrap_or_default()
                .is_empty()
        {
            object["metadata"]["namespace"] = self.namespace.into();
        }
        Ok(object)
    }

    async fn referenced(&self, reference: &ObjectReference) -> Result<Vec<Value>> {
        let object = json!({"apiVersion": reference.api_version, "kind": reference.kind});
        if reference.name.is_empty() {
            let gvk: Gvk = gvk_of(&object);
            let namespace = match reference.namespace.is_empty() {
                true => self.namespace,
                false => &reference.namespace,
            };
            let labels = label_selector(reference.labels.iter().flatten());
            return Ok(self.objects.list(&gvk, namespace, labels).await?);
        }
        let mut object = object;
        object["metadata"] = json!({"name": reference.name, "namespace": reference.namespace});
        Ok(vec![self.with_namespace(&object).await?])
    }
}

/// A selector of objects with all of these labels.
pub(crate) fn label_selector<'l>(labels: impl Iterator<Item = (&'l String, &'l String)>) -> LabelSelector {
    let requirements = labels.flat_map(|(label, value)| LabelSelector::equals(label, value).requirements);
    LabelSelector {
        requirements: requirements.collect(),
    }
}

fn settings<T: DeserializeOwned>(object: &Value) -> Result<T> {
    let mut fields = object.clone();
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    serde_json::from_value(fields).map_err(|error| anyhow!("invalid {}: {error}", object["kind"]))
}

/// Creates an object, or patches it if it exists. Conflicts and errors of the server are retried until the timeout.
async fn apply(context: &StepContext<'_>, object: &Value) -> Result<()> {
    let object = context
        .with_namespace(object)
        .await
        .map_err(|status| anyhow!("{}", status.message))?;
    let mut left = context.timeout;
    loop {
        let outcome = create_or_patch(context, &object).await;
        let error = match outcome {
            Ok(action) => {
                context
                    .logger
                    .log(format!("{} {action}", check::resource_id(&object)));
                return Ok(());
            }
            Err(status) => status,
        };
        let is_temporary = error.is_conflict() || error.is_already_exists() || error.code >= 500;
        if !is_temporary || left == 0 {
            let id = check::resource_id(&object);
            return Err(anyhow!("applying {id} failed: {}", error.message));
        }
        left -= 1;
        context.env.clock.sleep(Duration::from_secs(1)).await;
    }
}

async fn create_or_patch(context: &StepContext<'_>, object: &Value) -> Result<&'static str, Status> {
    if context.objects.find(object).await?.is_some() {
        context.objects.patch(object, &Patch::merge(object)?).await?;
        return Ok("updated");
    }
    context.objects.create(object).await?;
    Ok("created")
}

/// A path of the suite, relative to the working directory.
pub(crate) fn absolute(path: &str, working_dir: &Path) -> PathBuf {
    working_dir.join(path)
}
