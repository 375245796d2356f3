//! Delete: deletes the objects of templates, and waits until they are gone.

use serde_json::Value;
use setpoint_api::options::{DeleteOptions, DeletionPropagation};

use super::{TaskContext, TaskError, TaskResult, UnknownKinds};

pub(super) async fn run(context: &TaskContext<'_>, resources: &[String]) -> TaskResult {
    let objects = context.render_objects(resources, UnknownKinds::Skip).await?;
    let mut is_done = true;
    for object in &objects {
        let Some(current) = context.objects.find(object).await? else {
            continue;
        };
        if !current["metadata"]["deletionTimestamp"].is_string() {
            delete(context, std::slice::from_ref(object)).await?;
        }
        is_done &= context.objects.find(object).await?.is_none();
    }
    Ok(is_done)
}

/// Deletes objects, and their dependents before them.
pub(super) async fn delete(context: &TaskContext<'_>, objects: &[Value]) -> Result<(), TaskError> {
    for object in objects {
        let options = DeleteOptions {
            propagation_policy: Some(DeletionPropagation::Foreground),
            ..DeleteOptions::default()
        };
        context.objects.delete(object, options).await?;
    }
    Ok(())
}
