//! `/pods` and `/runningpods/`.

use http::Response;
use serde_json::{Value, json};
use setpoint_container_runtime::SandboxState;

use super::body::{self, Body};
use super::command::internal;
use super::connection::Server;
use super::containers::is_running;

/// The pods that are bound to the node, as the API has them.
pub(super) fn bound(server: &Server) -> Response<Body> {
    let pods = server.agent.pods(&server.node);
    let items: Vec<&str> = pods
        .iter()
        .filter_map(|pod| std::str::from_utf8(pod.json()).ok())
        .collect();
    let items = items.join(",");
    body::json(format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{}},"items":[{items}]}}"#
    ))
}

/// The pods that run, as the runtime has them.
pub(super) async fn running(server: &Server) -> Result<Response<Body>, Response<Body>> {
    let runtime = server.agent.runtime();
    let failed = |error: setpoint_container_runtime::Error| internal(error.to_string());
    let sandboxes = runtime.list_sandboxes().await.map_err(failed)?;
    let containers = runtime.list_containers().await.map_err(failed)?;
    let is_here = |node: &str| node.is_empty() || node == server.node;
    let mut items = Vec::new();
    for sandbox in &sandboxes {
        if sandbox.state != SandboxState::Ready || !is_here(&sandbox.pod.node) {
            continue;
        }
        let containers = containers
            .iter()
            .filter(|one| one.sandbox == sandbox.id && is_running(one));
        let containers: Vec<Value> = containers
            .map(|one| json!({"name": one.name, "image": one.image, "resources": {}}))
            .collect();
        let pod = &sandbox.pod;
        items.push(json!({
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "spec": {"containers": containers},
            "status": {},
        }));
    }
    let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items});
    Ok(body::json(list.to_string()))
}
