//! Writes the `Dangling` condition of every FlowSchema: whether the priority level it references exists. It belongs to
//! the API server, so it runs regardless of `--controllers`.

mod plan;

use std::sync::Arc;

use k8s_openapi::api::flowcontrol::v1::{FlowSchema, FlowSchemaCondition, PriorityLevelConfiguration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
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

/// View of a FlowSchema. Every level looks at every schema, and so does every fork of a cluster, so that it is decoded
/// once for each stored object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SchemaView {
    spec: SpecView,
    status: StatusView,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecView {
    priority_level_configuration: LevelReference,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LevelReference {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusView {
    conditions: Vec<FlowSchemaCondition>,
}

/// The schemas that reference this level.
fn schemas_of_level(schemas: &Lister<FlowSchema>, level: &str) -> Vec<Key> {
    let references = |schema: &TypedObject<FlowSchema>| {
        let view = schema.view::<SchemaView>();
        view.is_ok_and(|view| view.spec.priority_level_configuration.name == level)
    };
    let found = schemas.list().into_iter().filter(references);
    found.map(|schema| schema.key().clone()).collect()
}

impl Reconcile for FlowSchemas {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(schema) = self.schemas.find(key) else {
            return Ok(Next::Done);
        };
        let view = schema.view::<SchemaView>()?;
        let level = &view.spec.priority_level_configuration.name;
        let exists = self.levels.find(&Key::new("", level)).is_some();
        let now = Time(self.clock.now());
        let Some(condition) = plan::dangling(&view.status.conditions, level, exists, now) else {
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
