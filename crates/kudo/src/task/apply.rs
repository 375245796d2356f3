//! Apply: creates or patches the objects of templates, and waits until they are healthy.

use serde_json::Value;

use super::{TaskContext, TaskError, TaskResult, UnknownKinds};
use crate::health::{Health, health};
use crate::merge;

pub(super) async fn run(context: &TaskContext<'_>, resources: &[String]) -> TaskResult {
    let objects = context.render_objects(resources, UnknownKinds::Fail).await?;
    let applied = apply(context, &objects).await?;
    for object in &applied {
        match health(object) {
            Health::Healthy => {}
            Health::Waiting(message) => {
                tracing::debug!(message, "an object is not healthy yet");
                return Ok(false);
            }
            Health::Failed(message) => {
                let key = &object["metadata"];
                let (namespace, name) = (key["namespace"].as_str(), key["name"].as_str());
                let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
                let cause =
                    format!("object {namespace}/{name} is NOT healthy: fatal error: HealthUtil: {message}");
                return Err(context.fatal("FailedTerminalStateError", &cause));
            }
        }
    }
    Ok(true)
}

/// Creates the objects that do not exist, and patches those that do. Returns them as the server has them.
pub(super) async fn apply(context: &TaskContext<'_>, objects: &[Value]) -> Result<Vec<Value>, TaskError> {
    let mut applied = Vec::new();
    for object in objects {
        applied.push(apply_one(context, object).await?);
    }
    Ok(applied)
}

async fn apply_one(context: &TaskContext<'_>, object: &Value) -> Result<Value, TaskError> {
    let Some(current) = context.objects.find(object).await? else {
        return Ok(context.objects.create(&merge::with_last_applied(object)).await?);
    };
    let metadata = &object["metadata"];
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = metadata["name"].as_str().unwrap_or_default();
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    let patch = merge::patch(&current, object).map_err(|error| {
        context.fatal(
            "TaskRenderingError",
            &format!("failed to get original configuration {error}"),
        )
    })?;
    let patched = context.objects.patch(object, &patch).await;
    patched.map_err(|status| {
        let message = format!(
            "failed to patch a {kind} {namespace}/{name}: failed to execute patch: {}",
            status.message
        );
        TaskError::Transient(message)
    })
}
