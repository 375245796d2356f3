//! The node agent: runs the heartbeat of its nodes and the reconciler of their pods.

use std::collections::HashMap;
use std::sync::Arc;

use compact_str::CompactString;
use k8s_openapi::api::core::v1::Pod;
use setpoint_api::{Change, Key};
use setpoint_runtime::manager::RunnableFuture;
use setpoint_runtime::{Context, Controller, Error, Object};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Machine};
use crate::heartbeat::Heartbeat;
use crate::pods::PodReconciler;

/// The agent's component name, and the field manager of what it writes.
pub const NAME: &str = "kubelet";

/// Runs all nodes of the configuration until stopped.
pub fn run(context: Context, config: Config, stop: CancellationToken) -> RunnableFuture {
    Box::pin(run_agent(context, config, stop))
}

async fn run_agent(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let context = context.with_field_manager(NAME);
    let named = |machine: &Machine| (machine.name.clone(), machine.clone());
    let machines: HashMap<_, _> = config.machines.iter().map(named).collect();
    let pods = PodReconciler {
        pods: context.lister()?,
        machines: Arc::new(machines),
        runtime: config.runtime.clone(),
        clock: context.clock.clone(),
    };
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        () = pods.pods.cache().synced() => {}
    }
    pods.adopt_running().await;
    let heartbeat = Heartbeat::new(&config, context.client.clone(), context.clock.clone());
    let ours = pods.machines.clone();
    let controller = Controller::new(NAME, pods)
        .watches(Pod::resource().group_resource(), move |change| {
            bound_to(&ours, change)
        })
        .workers(config.workers);
    let ((), ended) = tokio::join!(heartbeat.run(stop.clone()), controller.run(&context, stop));
    ended
}

/// The key of the pod, unless its header shows that it is unbound or bound to a node of another agent. Where the header
/// lacks the field, the reconciler decodes the pod.
fn bound_to(ours: &HashMap<CompactString, Machine>, change: &Change) -> Vec<Key> {
    match change.object().field("spec.nodeName") {
        Some(node) if !ours.contains_key(node) => Vec::new(),
        _ => vec![change.key().clone()],
    }
}
