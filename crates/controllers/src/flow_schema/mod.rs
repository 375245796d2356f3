//! Writes the `Dangling` condition of every FlowSchema: whether the priority level it references exists. It belongs to
//! the API server, so it runs regardless of `--controllers`.

mod plan;

use std::sync::Arc;

use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use setpoint_api::{Clock, Key};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile, TypedObject,
};
use tokio_util::sync::CancellationToken;

pub const NAME: &str = "flowschema-status-controller";

/// The field manager of the status writes.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

/// Runs the controller until stopped.
pub async fn run(context: Context, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = FlowSchemas {
        schemas: context.lister()?,
        levels: context.lister()?,
        clock: context.clock.clone(),
    };
    let schemas = reconciler.schemas.clone();
    Controller::new(NAME, reconciler)
        .reconciles::<FlowSchema>()
        .watches(
            PriorityLevelConfiguration::resource().group_resource(),
            move |change| schemas_of_level(&schemas, change.key().name()),
        )
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct FlowSchemas {
    schemas: Lister<FlowSchema>,
    levels: Lister<PriorityLevelConfiguration>,
    clock: Arc<dyn Clock>,
}

/// The schemas that reference this level.
fn schemas_of_level(schemas: &Lister<FlowSchema>, level: &str) -> Vec<Key> {
    let names = |schema: &TypedObject<FlowSchema>| level_of(schema).is_some_and(|own| own == level);
    let found = schemas.list().into_iter().filter(names);
    found.map(|schema| schema.key().clone()).collect()
}

fn level_of(schema: &TypedObject<FlowSchema>) -> Option<String> {
    Some(schema.to_owned().ok()?.spec.priority_level_configuration.name)
}

impl Reconcile for FlowSchemas {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(schema) = self.schemas.find(key) else {
            return Ok(Next::Done);
        };
        let flow_schema = schema.to_owned()?;
        let level = flow_schema.spec.priority_level_configuration.name;
        let exists = self.levels.find(&Key::new("", &level)).is_some();
        let before = flow_schema
            .status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        let now = Time(self.clock.now());
        let Some(condition) = plan::dangling(&before, &level, exists, now) else {
            return Ok(Next::Done);
        };
        let applied = json!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": "FlowSchema",
            "metadata": {"name": key.name(), "uid": schema.uid()},
            "status": {"conditions": [condition]},
        });
        let patch = Patch::apply(&applied, MANAGER)?.force();
        let written = client.all::<FlowSchema>().patch_status(key.name(), &patch).await;
        match written {
            // The object was deleted or replaced, and that event enqueues the key again.
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(Next::Done),
            written => Ok(written.map(|_| Next::Done)?),
        }
    }
}

#[cfg(test)]
mod tests;
