//! `/portForward/{namespace}/{pod}`.

use std::sync::Arc;

use http::{HeaderMap, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use setpoint_container_runtime::SandboxId;
use setpoint_streaming::port_forward::{self, Forward};
use setpoint_streaming::{Limits, negotiation};

use super::agent_api::AgentApi;
use super::body::{Body, text};
use super::command::{internal, rejected};
use super::connection::{Reply, Server, upgraded};
use super::containers;
use super::query::Query;

pub(super) async fn handle(
    server: &Server,
    (namespace, name, uid): (&str, &str, Option<&str>),
    query: &Query,
    (headers, upgrade): (&HeaderMap, OnUpgrade),
) -> Result<Reply, Response<Body>> {
    let Some(pod) = server.find_pod(namespace, name) else {
        return Err(text(StatusCode::NOT_FOUND, "pod does not exist"));
    };
    if uid.is_some_and(|uid| uid != pod.metadata.uid) {
        return Err(text(StatusCode::NOT_FOUND, "pod not found"));
    }
    let sandbox = containers::find_sandbox(server.agent.runtime(), &pod).await;
    let sandbox = sandbox.map_err(|error| internal(error.to_string()))?;
    let Some(sandbox) = sandbox else {
        return Err(internal(format!("pod not found (\"{name}_{namespace}\")")));
    };
    let accepted = negotiation::port_forward(headers, || ports(query));
    let accepted = accepted.map_err(|rejection| rejected(*rejection))?;
    let forward = forwarder(server.agent.clone(), sandbox, (name.to_owned(), pod.metadata.uid));
    let served = async move {
        if let Some(connection) = upgraded(upgrade).await {
            port_forward::serve(connection, accepted.protocol, Limits::default(), forward).await;
        }
    };
    Ok(Reply::upgrade(accepted.headers, Box::pin(served)))
}

fn forwarder(agent: Arc<dyn AgentApi>, sandbox: SandboxId, pod: (String, String)) -> Forward {
    let pod = Arc::new(pod);
    Arc::new(move |port, stream| {
        let (agent, sandbox, pod) = (agent.clone(), sandbox.clone(), pod.clone());
        Box::pin(async move {
            let stream = Box::new(stream) as _;
            let forwarded = agent.runtime().port_forward(&sandbox, port, stream).await;
            forwarded.map_err(|error| {
                let (name, uid) = &*pod;
                format!("error forwarding port {port} to pod {name}, uid {uid}: {error}")
            })
        })
    })
}

/// The ports of a query.
fn ports(query: &Query) -> Result<Vec<u16>, String> {
    let values: Vec<&str> = query.all("port").collect();
    if values.is_empty() {
        return Err("query parameter \"port\" is required".to_owned());
    }
    let mut ports = Vec::new();
    for value in values {
        if value.is_empty() {
            return Err("query parameter \"port\" cannot be empty".to_owned());
        }
        for port in value.split(',') {
            match port.parse::<u16>() {
                Err(_) => return Err(format!("unable to parse {value:?} as a port")),
                Ok(0) => return Err(format!("port {value:?} must be > 0")),
                Ok(port) => ports.push(port),
            }
        }
    }
    Ok(ports)
}
