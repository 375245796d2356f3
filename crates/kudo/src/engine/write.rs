//! Writes of the engine to an Instance: its status, and the end of its plan.

use serde_json::json;
use setpoint_client::{Client, Patch};
use setpoint_runtime::reconcile::Error;

use crate::api::{ExecutionStatus, Instance};

/// How often the status is written again after a conflict with a change of the Instance by others.
const MAX_WRITES: usize = 10;

/// Writes the status, of which the engine is the only writer: a conflict is a change of something else. If the plan has
/// been started again meanwhile, the status is of no use any more, and the conflict is returned.
pub(super) async fn write_status(client: &Client, instance: &mut Instance) -> Result<(), Error> {
    let instances = client.namespaced::<Instance>(instance.namespace());
    let name = instance.name().to_owned();
    for _ in 0..MAX_WRITES {
        match instances.update_status(instance).await {
            Ok(stored) => {
                instance.metadata = stored.to_owned()?.metadata;
                return Ok(());
            }
            Err(status) if status.is_conflict() => {
                let current = instances.get(&name).await?.to_owned()?;
                if current.spec.plan_execution.uid != instance.spec.plan_execution.uid {
                    return Err(status.into());
                }
                instance.metadata = current.metadata;
            }
            // Its namespace has been deleted, for example: there is nothing left to report.
            Err(status) if status.is_not_found() => return Ok(()),
            Err(status) => return Err(status.into()),
        }
    }
    Err(Error::failed(format!(
        "the status of instance {name} could not be written"
    )))
}

/// Writes the status of the plan to the spec, from which admission removes a plan that has ended, and removes the finalizer
/// after the cleanup plan. The status has been written before: after a crash in between, only this is repeated.
pub(super) async fn finish(
    client: &Client,
    instance: &mut Instance,
    status: ExecutionStatus,
) -> Result<(), Error> {
    let finalizers = instance.metadata.finalizers.clone();
    instance.remove_cleanup_finalizer();
    let mut patch = json!({});
    if instance.spec.plan_execution.status != Some(status) {
        patch["spec"] = json!({"planExecution": {"status": status}});
    }
    if instance.metadata.finalizers != finalizers {
        patch["metadata"] = json!({"finalizers": instance.metadata.finalizers});
    }
    if patch == json!({}) {
        return Ok(());
    }
    patch["metadata"]["resourceVersion"] = json!(instance.metadata.resource_version);
    let instances = client.namespaced::<Instance>(instance.namespace());
    match instances.patch(instance.name(), &Patch::merge(&patch)?).await {
        Ok(_) => Ok(()),
        // Without its finalizer, the Instance may be gone already.
        Err(status) if status.is_not_found() => Ok(()),
        Err(status) => Err(status.into()),
    }
}
