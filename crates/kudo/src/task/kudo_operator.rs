//! KudoOperator: an Instance of another operator, which is a dependency.

use serde_json::{Value, json};
use setpoint_client::Patch;

use super::{TaskContext, TaskError, TaskResult};
use crate::api::{API_VERSION, TaskSpec, labels, operator_version_name};
use crate::enhance;
use crate::health::{Health, health};
use crate::parameters;

pub(super) async fn run(context: &TaskContext<'_>, spec: &TaskSpec) -> TaskResult {
    let instance = instance(context, spec)?;
    let applied = match context.objects.find(&instance).await? {
        None => context.objects.create(&instance).await?,
        Some(_) => {
            let patch = Patch::merge(&json!({"spec": instance["spec"]}))?;
            context.objects.patch(&instance, &patch).await?
        }
    };
    Ok(health(&applied) == Health::Healthy)
}

/// The Instance of the dependency. Its name is that of the task, else it is made of those of the parent and the operator.
fn instance(context: &TaskContext<'_>, spec: &TaskSpec) -> Result<Value, TaskError> {
    let metadata = &context.metadata;
    let name = match spec.instance_name.as_str() {
        "" => format!("{}-{}", metadata.instance, spec.package),
        name => name.to_owned(),
    };
    let version = operator_version_name(&spec.package, &spec.app_version, &spec.operator_version);
    let mut instance = json!({
        "apiVersion": API_VERSION,
        "kind": "Instance",
        "metadata": {
            "name": name,
            "namespace": metadata.namespace,
            "labels": {labels::OPERATOR: spec.package},
            "ownerReferences": [enhance::owner_reference(metadata)],
        },
        "spec": {"operatorVersion": {"name": version}},
    });
    let file = &spec.parameter_file;
    if !file.is_empty() {
        let values = parameters::parse_file(file, &context.render(file)?);
        let values = values.map_err(|error| context.fatal("TaskRenderingError", &error))?;
        instance["spec"]["parameters"] = json!(values);
    }
    Ok(instance)
}
