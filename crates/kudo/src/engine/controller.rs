//! The controller of Instances: reads the Instance, runs the next steps of its plan, and writes the status after each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use setpoint_api::{Clock, Key};
use setpoint_client::{Client, Http, Patch, TypedObject};
use setpoint_kuttl::ObjectClient;
use setpoint_runtime::Recorder;
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use uuid::Uuid;

use super::plan_pass::{PlanPass, facts, missing_task, pipes, resolve, task_metadata};
use super::readiness::readiness;
use super::status;
use super::workflow::{self, StepIndex, StepOutcome};
use super::write::{finish, write_status};
use crate::api::{ExecutionStatus, Instance, InstanceStatus, OperatorVersion, PlanStatus};
use crate::enhance::TaskMetadata;
use crate::parameters;
use crate::render::Variables;
use crate::task::{self, TaskContext, TaskError};

/// The longest time between two attempts of a step.
const MAX_RETRY_SECONDS: u64 = 60;

/// The reconciler.
#[derive(Debug)]
pub(super) struct InstanceController {
    pub(super) objects: ObjectClient,
    pub(super) http: Http,
    pub(super) events: Recorder,
    pub(super) clock: Arc<dyn Clock>,
}

impl Reconcile for InstanceController {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let stored = match client
            .namespaced::<Instance>(key.namespace())
            .get(key.name())
            .await
        {
            Ok(stored) => stored,
            Err(status) if status.is_not_found() => return Ok(Next::Done),
            Err(status) => return Err(status.into()),
        };
        let mut instance = stored.to_owned()?;
        let version = self.operator_version(&instance, &stored, client).await?;
        let execution = instance.spec.plan_execution.clone();
        status::schedule(&mut instance, &version, || Uuid::new_v4().to_string());
        if instance.spec.plan_execution != execution {
            let patch = json!({"spec": {"planExecution": instance.spec.plan_execution}});
            let instances = client.namespaced::<Instance>(key.namespace());
            instances.patch(key.name(), &Patch::merge(&patch)?).await?;
            return Ok(Next::After(Duration::ZERO));
        }
        match instance.spec.plan_execution.plan_name.is_empty() {
            true => self.update_readiness(instance, client).await,
            false => self.run_plan(instance, (&stored, &version), client).await,
        }
    }
}

impl InstanceController {
    async fn operator_version(
        &self,
        instance: &Instance,
        stored: &TypedObject<Instance>,
        client: &Client,
    ) -> Result<OperatorVersion, Error> {
        let (namespace, name) = (
            instance.operator_version_namespace(),
            instance.operator_version_name(),
        );
        let found = client.namespaced::<OperatorVersion>(namespace).get(name).await;
        if let Err(status) = &found {
            let message = format!(
                "InstanceController: Error getting operatorVersion {name} for instance {}/{}: {}",
                instance.namespace(),
                instance.name(),
                status.message
            );
            self.events.warning(stored, "InvalidOperatorVersion", message);
        }
        Ok(found?.to_owned()?)
    }

    /// Without a plan, only the readiness may have changed.
    async fn update_readiness(&self, mut instance: Instance, client: &Client) -> Result<Next, Error> {
        let objects = self.objects.with_client(client.clone());
        let (readiness, message) = readiness(&objects, &instance).await?;
        let old = instance.status.conditions.clone();
        status::set_readiness(&mut instance, readiness, &message, self.clock.now());
        if instance.status.conditions != old {
            write_status(client, &mut instance).await?;
        }
        Ok(Next::Done)
    }

    async fn run_plan(
        &self,
        mut instance: Instance,
        (stored, version): (&TypedObject<Instance>, &OperatorVersion),
        client: &Client,
    ) -> Result<Next, Error> {
        let before = instance.status.clone();
        status::initialize(&mut instance, version);
        let name = instance.spec.plan_execution.plan_name.clone();
        let Some(plan) = version.spec.plans.get(&name) else {
            let message = format!("could not find required plan: '{name}'");
            self.events.warning(stored, "InvalidPlan", message.clone());
            return Err(Error::terminal(message));
        };
        let uid = instance.spec.plan_execution.uid.clone();
        if status::reset_if_new(plan_status(&mut instance, &name), &uid) {
            let message = format!("Execution of plan {name} started");
            self.events.normal(stored, "PlanStarted", message);
        }
        let mut pass = PlanPass {
            objects: self.objects.with_client(client.clone()),
            variables: Variables::default(),
            instance,
            version,
            plan,
            fatal: None,
        };
        self.run_steps(&mut pass, client, before).await?;
        let PlanPass {
            mut instance, fatal, ..
        } = pass;
        let status = plan_status(&mut instance, &name).status;
        finish(client, &mut instance, status).await?;
        if let Some((reason, message)) = fatal {
            self.events.warning(stored, reason, message);
        }
        if status.is_terminal() {
            let message = format!(
                "Execution of plan {name} finished with status {}",
                status.as_str()
            );
            self.events.normal(stored, "PlanFinished", message);
            return Ok(Next::Done);
        }
        let updated = plan_status(&mut instance, &name).updated_at();
        let age = updated.map_or(0, |at| self.clock.now().duration_since(at).as_secs());
        let minutes = u64::try_from(age).unwrap_or(0) / 60;
        Ok(Next::After(Duration::from_secs(
            (minutes + 1).min(MAX_RETRY_SECONDS),
        )))
    }

    /// Runs the steps that may run now. The status is written after every step that is done, so that a process that is
    /// killed repeats at most the step that it was in.
    async fn run_steps(
        &self,
        pass: &mut PlanPass<'_>,
        client: &Client,
        before: InstanceStatus,
    ) -> Result<(), Error> {
        let name = pass.instance.spec.plan_execution.plan_name.clone();
        let mut written = before;
        let mut attempted = BTreeSet::new();
        if let Err(error) = self.prepare(pass, &name).await {
            let message = format!("Error during execution: fatal error: {}", error.1);
            let status = plan_status(&mut pass.instance, &name);
            (status.status, status.message) = (ExecutionStatus::FatalError, message.clone());
            pass.fatal = Some((error.0, message));
        }
        workflow::complete(plan_status(&mut pass.instance, &name));
        while let Some(at) =
            workflow::next_step(pass.plan, plan_status(&mut pass.instance, &name), &attempted)
        {
            attempted.insert(at);
            workflow::start(plan_status(&mut pass.instance, &name), at);
            let outcome = self.run_step(pass, &name, at).await;
            let is_done = outcome == StepOutcome::Done;
            workflow::record(plan_status(&mut pass.instance, &name), at, outcome);
            if is_done {
                self.write_if_changed(pass, client, &mut written).await?;
            }
        }
        self.write_if_changed(pass, client, &mut written).await
    }

    async fn write_if_changed(
        &self,
        pass: &mut PlanPass<'_>,
        client: &Client,
        written: &mut InstanceStatus,
    ) -> Result<(), Error> {
        let now = self.clock.now();
        let name = pass.instance.spec.plan_execution.plan_name.clone();
        let status = plan_status(&mut pass.instance, &name).clone();
        if let Some(readiness) = status::plan_readiness(&status) {
            status::set_readiness(&mut pass.instance, readiness, "", now);
        }
        if pass.instance.status == *written {
            return Ok(());
        }
        plan_status(&mut pass.instance, &name).last_updated_timestamp = Some(Time(now));
        write_status(client, &mut pass.instance).await?;
        *written = pass.instance.status.clone();
        Ok(())
    }

    /// Checks the dependencies, and computes the values for templates. The error has the reason of its event.
    async fn prepare(&self, pass: &mut PlanPass<'_>, plan: &str) -> Result<(), (&'static str, String)> {
        if !pass.instance.is_child() {
            let resolved = resolve(pass.objects.client(), pass.version).await;
            resolved.map_err(|error| ("CircularDependency", error))?;
        }
        let values = parameters::values(&pass.instance, pass.version);
        let values =
            values.map_err(|error| ("InvalidParams", format!("could not parse parameters: {error}")))?;
        let metadata = task_metadata(pass, plan, (0, 0), "");
        let pipes = pipes(pass, &metadata).map_err(|error| ("InvalidPlan", error))?;
        pass.variables = Variables {
            facts: BTreeMap::new(),
            parameters: values,
            pipes,
            now: Some(self.clock.now()),
        };
        Ok(())
    }

    async fn run_step(&self, pass: &mut PlanPass<'_>, plan: &str, at: StepIndex) -> StepOutcome {
        let step = &pass.plan.phases[at.0].steps[at.1];
        let (mut is_done, mut failure) = (true, None);
        for name in &step.tasks {
            let metadata = task_metadata(pass, plan, at, name);
            let Some(task) = pass.version.find_task(name) else {
                let message = missing_task(&metadata);
                pass.fatal = Some(("UnknownTaskName", message.clone()));
                return StepOutcome::Fatal(message);
            };
            let context = TaskContext {
                objects: &pass.objects,
                http: &self.http,
                clock: &*self.clock,
                variables: Variables {
                    facts: facts(&metadata),
                    ..pass.variables.clone()
                },
                metadata,
                templates: &pass.version.spec.templates,
            };
            match task::run(&context, task).await {
                Ok(done) => is_done &= done,
                Err(TaskError::Fatal { reason, message }) => {
                    pass.fatal = Some((reason, message.clone()));
                    return StepOutcome::Fatal(message);
                }
                Err(TaskError::Transient(error)) => {
                    let TaskMetadata { phase, step, .. } = &context.metadata;
                    let message = format!(
                        "A transient error when executing task {plan}.{phase}.{step}.{name}. Will retry. {error}"
                    );
                    tracing::info!(message, "a task failed");
                    failure = Some(message);
                }
            }
        }
        match (failure, is_done) {
            (Some(message), _) => StepOutcome::Failed(message),
            (None, true) => StepOutcome::Done,
            (None, false) => StepOutcome::Waiting,
        }
    }
}

/// The status of a plan, which `status::initialize` has added.
fn plan_status<'i>(instance: &'i mut Instance, plan: &str) -> &'i mut PlanStatus {
    instance.status.plan_status.entry(plan.to_owned()).or_default()
}
