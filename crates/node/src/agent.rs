//! The agent: all its nodes and all their pods.

use std::collections::HashMap;
use std::sync::Arc;

use compact_str::CompactString;
use k8s_openapi::api::core::v1::Pod;
use setpoint_api::{Change, Key};
use setpoint_runtime::manager::Running;
use setpoint_runtime::{Context, Controller, Error, Object};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Machine};
use crate::heartbeat::Heartbeat;
use crate::pods::Pods;

/// The agent's name as a component.
pub const NAME: &str = "kubelet";

/// Looks after all nodes of the configuration until stopped.
pub fn run(context: Context, config: Config, stop: CancellationToken) -> Running {
    Box::pin(look_after(context, config, stop))
}

async fn look_after(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let named = |machine: &Machine| (machine.name.clone(), machine.clone());
    let machines: HashMap<_, _> = config.machines.iter().map(named).collect();
    let pods = Pods {
        pods: context.lister()?,
        machines: Arc::new(machines),
        runtime: config.runtime.clone(),
        client: context.client.clone(),
        clock: context.clock.clone(),
    };
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        () = pods.pods.cache().synced() => {}
    }
    pods.take_over().await;
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

/// The pod, unless its header already says that it is bound elsewhere or nowhere. A header without the field says
/// nothing: then the pod itself is asked.
fn bound_to(ours: &HashMap<CompactString, Machine>, change: &Change) -> Vec<Key> {
    match change.object().field("spec.nodeName") {
        Some(node) if !ours.contains_key(node) => Vec::new(),
        _ => vec![change.key().clone()],
    }
}
