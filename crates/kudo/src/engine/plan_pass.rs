//! One pass over the plan of an Instance: what its tasks see of the Instance, and the operators that it depends on.

use std::collections::BTreeMap;

use setpoint_client::Client;
use setpoint_kuttl::ObjectClient;

use super::workflow::StepIndex;
use crate::api::{Instance, Operator, OperatorVersion, Plan, operator_version_name};
use crate::dependencies::{self, DependencyGraph};
use crate::enhance::TaskMetadata;
use crate::render::Variables;
use crate::task;

/// The state of a pass.
#[derive(Debug)]
pub(super) struct PlanPass<'a> {
    pub(super) objects: ObjectClient,
    pub(super) instance: Instance,
    pub(super) version: &'a OperatorVersion,
    pub(super) plan: &'a Plan,
    pub(super) variables: Variables,
    /// The reason and the message of the error that ended the plan.
    pub(super) fatal: Option<(&'static str, String)>,
}

/// Checks that all operators that an operator depends on exist, without a cycle.
pub(super) async fn resolve(client: &Client, version: &OperatorVersion) -> Result<(), String> {
    let mut graph = DependencyGraph::default();
    let mut open = vec![version.clone()];
    while let Some(parent) = open.pop() {
        for (_, spec) in dependencies::tasks(&parent) {
            let name = operator_version_name(&spec.package, &spec.app_version, &spec.operator_version);
            let namespace = version.namespace();
            let error = |what: &str| {
                let message = format!("failed to resolve {what} {namespace}/{}", spec.package);
                dependencies::resolve_error(spec, &parent.qualified_name(), &message)
            };
            let child = client.namespaced::<OperatorVersion>(namespace).get(&name).await;
            let child = child.ok().and_then(|child| child.to_owned().ok());
            let child = child.ok_or_else(|| error("operator version"))?;
            let operator = client.namespaced::<Operator>(namespace).get(&spec.package).await;
            operator.map_err(|_| error("operator"))?;
            if graph.add(&parent.qualified_name(), &child.qualified_name())? {
                open.push(child);
            }
        }
    }
    Ok(())
}

pub(super) fn task_metadata(
    pass: &PlanPass<'_>,
    plan: &str,
    (phase, step): StepIndex,
    task: &str,
) -> TaskMetadata {
    let (instance, version) = (&pass.instance, pass.version);
    let phase = pass.plan.phases.get(phase);
    let step = phase.and_then(|phase| phase.steps.get(step));
    TaskMetadata {
        instance: instance.name().to_owned(),
        instance_uid: instance.metadata.uid.clone().unwrap_or_default(),
        namespace: instance.namespace().to_owned(),
        operator: version.operator_name().to_owned(),
        operator_version: version.spec.version.clone(),
        app_version: version.spec.app_version.clone(),
        plan: plan.to_owned(),
        plan_uid: instance.spec.plan_execution.uid.clone(),
        phase: phase.map(|phase| phase.name.clone()).unwrap_or_default(),
        step: step.map(|step| step.name.clone()).unwrap_or_default(),
        task: task.to_owned(),
    }
}

pub(super) fn facts(metadata: &TaskMetadata) -> BTreeMap<&'static str, String> {
    [
        ("OperatorName", &metadata.operator),
        ("Name", &metadata.instance),
        ("Namespace", &metadata.namespace),
        ("AppVersion", &metadata.app_version),
        ("OperatorVersion", &metadata.operator_version),
        ("PlanName", &metadata.plan),
        ("PhaseName", &metadata.phase),
        ("StepName", &metadata.step),
    ]
    .into_iter()
    .map(|(name, value)| (name, value.clone()))
    .collect()
}

/// The names of the objects that the Pipe tasks of a plan create, by their keys.
pub(super) fn pipes(
    pass: &PlanPass<'_>,
    metadata: &TaskMetadata,
) -> Result<BTreeMap<String, String>, String> {
    let mut pipes = BTreeMap::new();
    for phase in &pass.plan.phases {
        for step in &phase.steps {
            let tasks = step.tasks.iter().filter_map(|name| pass.version.find_task(name));
            for task in tasks.filter(|task| task.kind == "Pipe") {
                let metadata = TaskMetadata {
                    phase: phase.name.clone(),
                    step: step.name.clone(),
                    task: task.name.clone(),
                    ..metadata.clone()
                };
                for pipe in &task.spec.pipe {
                    let name = task::artifact_name(&metadata, &pipe.key);
                    if pipes.insert(pipe.key.clone(), name).is_some() {
                        return Err(format!(
                            "could not make task pipes: duplicated pipe key {}",
                            pipe.key
                        ));
                    }
                }
            }
        }
    }
    Ok(pipes)
}

pub(super) fn missing_task(metadata: &TaskMetadata) -> String {
    let TaskMetadata {
        namespace,
        instance,
        plan,
        phase,
        step,
        task,
        ..
    } = metadata;
    format!(
        "Error during execution: {namespace}/{instance} fatal error:  missing task {plan}.{phase}.{step}.{task}"
    )
}
