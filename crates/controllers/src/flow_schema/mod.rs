//! Says of every FlowSchema whether the priority level it names is there. It is one of the API server's own, so it runs
//! whatever controllers are asked for.

mod plan;

use std::sync::Arc;

use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use setpoint_api::{Clock, Key};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile, Typed};
use tokio_util::sync::CancellationToken;

pub const NAME: &str = "flowschema-status-controller";

/// Who is noted as the one who wrote the status.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

/// Runs the controller until stopped.
pub async fn run(context: Context, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = FlowSchemas {
        schemas: context.lister()?,
        levels: context.lister()?,
        client: context.client.clone(),
        clock: context.clock.clone(),
    };
    let schemas = reconciler.schemas.clone();
    Controller::new(NAME, reconciler)
        .reconciles::<FlowSchema>()
        .watches(
            PriorityLevelConfiguration::resource().group_resource(),
            move |change| naming(&schemas, change.key().name()),
        )
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct FlowSchemas {
    schemas: Lister<FlowSchema>,
    levels: Lister<PriorityLevelConfiguration>,
    client: Client,
    clock: Arc<dyn Clock>,
}

/// The schemas that name this level.
fn naming(schemas: &Lister<FlowSchema>, level: &str) -> Vec<Key> {
    let names = |schema: &Typed<FlowSchema>| level_of(schema).is_some_and(|own| own == level);
    let found = schemas.list().into_iter().filter(names);
    found.map(|schema| schema.key().clone()).collect()
}

fn level_of(schema: &Typed<FlowSchema>) -> Option<String> {
    Some(schema.to_owned().ok()?.spec.priority_level_configuration.name)
}

impl Reconcile for FlowSchemas {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(schema) = self.schemas.find(key) else {
            return Ok(Next::Done);
        };
        let document = schema.to_owned()?;
        let level = document.spec.priority_level_configuration.name;
        let is_there = self.levels.find(&Key::new("", &level)).is_some();
        let before = document
            .status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        let now = Time(self.clock.now());
        let Some(condition) = plan::dangling(&before, &level, is_there, now) else {
            return Ok(Next::Done);
        };
        let applied = json!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": "FlowSchema",
            "metadata": {"name": key.name(), "uid": schema.uid()},
            "status": {"conditions": [condition]},
        });
        let patch = Patch::apply(&applied, MANAGER)?.force();
        let written = self
            .client
            .all::<FlowSchema>()
            .patch_status(key.name(), &patch)
            .await;
        match written {
            // It went, or another of its name came: its own change brings that back here.
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(Next::Done),
            written => Ok(written.map(|_| Next::Done)?),
        }
    }
}

#[cfg(test)]
mod tests;
