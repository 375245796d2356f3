//! `/stats/summary`: the use of resources by the containers of the node.

use std::collections::BTreeMap;

use http::Response;
use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_container_runtime::{ContainerState, Error, PodIdentity};

use super::body::{self, Body};
use super::command::internal;
use super::connection::Server;
use crate::machine_usage::MachineUsage;

/// The use of resources by one container.
#[derive(Debug, Clone)]
pub(super) struct ContainerUsage {
    pub(super) name: String,
    pub(super) started_at: Option<Timestamp>,
    pub(super) time: Timestamp,
    pub(super) cpu_nanoseconds: u64,
    pub(super) working_set_bytes: u64,
    writable_layer_bytes: u64,
}

/// The use of resources by the containers of one pod.
#[derive(Debug, Clone)]
pub(super) struct PodUsage {
    pub(super) pod: PodIdentity,
    started_at: Timestamp,
    pub(super) containers: Vec<ContainerUsage>,
}

/// The use of resources by the running pods of the node, in the order of their names.
pub(super) async fn usage(server: &Server) -> Result<Vec<PodUsage>, Error> {
    let runtime = server.agent.runtime();
    let containers = runtime.list_containers().await?;
    let stats = runtime.container_stats().await?;
    let mut pods = BTreeMap::new();
    for sandbox in runtime.list_sandboxes().await? {
        if sandbox.pod.node.is_empty() || sandbox.pod.node == server.node {
            let pod = PodUsage {
                pod: sandbox.pod,
                started_at: sandbox.created_at,
                containers: Vec::new(),
            };
            pods.insert(sandbox.id, pod);
        }
    }
    let containers: BTreeMap<_, _> = containers.iter().map(|one| (&one.id, one)).collect();
    for one in stats {
        let Some(container) = containers.get(&one.id) else {
            continue;
        };
        let Some(pod) = pods.get_mut(&container.sandbox) else {
            continue;
        };
        pod.containers.push(ContainerUsage {
            name: container.name.clone(),
            started_at: match &container.state {
                ContainerState::Running { started_at } => Some(*started_at),
                _ => None,
            },
            time: one.time,
            cpu_nanoseconds: one.cpu_nanoseconds,
            working_set_bytes: one.working_set_bytes,
            writable_layer_bytes: one.writable_layer_bytes,
        });
    }
    let mut pods: Vec<PodUsage> = pods
        .into_values()
        .filter(|pod| !pod.containers.is_empty())
        .collect();
    pods.sort_by(|a, b| (&a.pod.namespace, &a.pod.name).cmp(&(&b.pod.namespace, &b.pod.name)));
    Ok(pods)
}

/// What the node uses: its machine, or else its containers.
pub(super) fn node_usage(server: &Server, pods: &[PodUsage]) -> MachineUsage {
    server.agent.machine_usage().unwrap_or_else(|| {
        let containers = || pods.iter().flat_map(|pod| &pod.containers);
        MachineUsage {
            cpu_nanoseconds: containers().map(|one| one.cpu_nanoseconds).sum(),
            working_set_bytes: containers().map(|one| one.working_set_bytes).sum(),
        }
    })
}

/// The summary.
pub(super) async fn summary(server: &Server) -> Result<Response<Body>, Response<Body>> {
    let pods = usage(server).await.map_err(|error| internal(error.to_string()))?;
    let now = server.agent.clock().now();
    let node = node_usage(server, &pods);
    let summary = json!({
        "node": {
            "nodeName": server.node,
            "cpu": {"time": now, "usageCoreNanoSeconds": node.cpu_nanoseconds},
            "memory": {"time": now, "workingSetBytes": node.working_set_bytes},
        },
        "pods": pods.iter().map(|pod| pod_summary(pod, now)).collect::<Vec<Value>>(),
    });
    Ok(body::json(summary.to_string()))
}

fn pod_summary(usage: &PodUsage, now: Timestamp) -> Value {
    let containers = usage.containers.iter().map(|one| {
        json!({
            "name": one.name,
            "startTime": one.started_at,
            "cpu": cpu([one], one.time),
            "memory": memory([one], one.time),
            "rootfs": {"time": one.time, "usedBytes": one.writable_layer_bytes},
        })
    });
    let pod = &usage.pod;
    json!({
        "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "startTime": usage.started_at,
        "containers": containers.collect::<Vec<Value>>(),
        "cpu": cpu(&usage.containers, now),
        "memory": memory(&usage.containers, now),
    })
}

fn cpu<'a>(containers: impl IntoIterator<Item = &'a ContainerUsage>, time: Timestamp) -> Value {
    let used: u64 = containers.into_iter().map(|one| one.cpu_nanoseconds).sum();
    json!({"time": time, "usageCoreNanoSeconds": used})
}

fn memory<'a>(containers: impl IntoIterator<Item = &'a ContainerUsage>, time: Timestamp) -> Value {
    let used: u64 = containers.into_iter().map(|one| one.working_set_bytes).sum();
    json!({"time": time, "workingSetBytes": used})
}
