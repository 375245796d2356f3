//! Finds the backend address of a pod, a node or a service from their objects.

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;
use setpoint_api::options::{GetOptions, ListOptions};
use setpoint_api::{Body, Gvr, Key, Request, Response, Serve, Status, Target, User, Verb};
use uuid::Uuid;

use super::{BackendAddress, Connect};
use crate::request::options::StatusError;

/// The kubelet's port if the Node has none in its status.
const DEFAULT_KUBELET_PORT: u16 = 10250;
/// The preferred types of a node's addresses if nothing else is configured, best first: kube-apiserver's.
pub(super) const ADDRESS_TYPES: [&str; 5] = [
    "Hostname",
    "InternalDNS",
    "InternalIP",
    "ExternalDNS",
    "ExternalIP",
];
/// The label with the service's name on an EndpointSlice.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Reads objects as the authorized user.
#[derive(Clone, Copy)]
pub(super) struct ObjectReader<'a> {
    pub serve: &'a dyn Serve,
    pub user: &'a Arc<User>,
    pub connect: &'a dyn Connect,
}

impl ObjectReader<'_> {
    pub(super) async fn get(self, resource: Gvr, namespace: &str, name: &str) -> Result<Value, StatusError> {
        let target = Target::object(resource, &Key::new(namespace, name));
        let response = self.call(target, Verb::Get(GetOptions::default())).await?;
        let object = response
            .into_object()
            .ok_or_else(|| internal("response contains no object"))?;
        setpoint_api::json::from_slice(object.json()).map_err(|error| internal(&error.to_string()))
    }

    async fn list(self, resource: Gvr, namespace: &str, labels: &str) -> Result<Vec<Value>, StatusError> {
        let labels = labels
            .parse()
            .map_err(|_| internal("service name is not a valid label value"))?;
        let options = ListOptions {
            labels,
            ..ListOptions::default()
        };
        let response = self
            .call(Target::in_namespace(resource, namespace), Verb::List(options))
            .await?;
        let Body::List(list) = response.body else {
            return Ok(Vec::new());
        };
        let read = |item: &Arc<setpoint_api::Stored>| setpoint_api::json::from_slice(item.json()).ok();
        Ok(list.items.iter().filter_map(read).collect())
    }

    async fn call(self, target: Target, verb: Verb) -> Result<Response, StatusError> {
        let request = Request {
            user: self.user.clone(),
            target,
            verb,
        };
        self.serve.call(request).await.map_err(Box::new)
    }

    pub(super) async fn pod(self, namespace: &str, name: &str) -> Result<Value, StatusError> {
        self.get(Gvr::new("", "v1", "pods"), namespace, name).await
    }

    /// The kubelet of a node.
    pub(super) async fn node(self, name: &str) -> Result<BackendAddress, StatusError> {
        let node = self.get(Gvr::new("", "v1", "nodes"), "", name).await?;
        kubelet_address(&node, name, &self.connect.node_address_types()).ok_or_else(|| {
            let known = &node["status"]["addresses"];
            plain_error(&format!("no preferred addresses found; known addresses: {known}"))
        })
    }

    /// A random ready endpoint of a service, by the name or number of its port.
    pub(super) async fn service(
        self,
        namespace: &str,
        name: &str,
        port: &str,
        secure: bool,
    ) -> Result<BackendAddress, StatusError> {
        let port = match port.parse::<u64>() {
            Err(_) => port.to_owned(),
            Ok(number) => {
                let service = self.get(Gvr::new("", "v1", "services"), namespace, name).await?;
                let ports = service["spec"]["ports"].as_array().cloned().unwrap_or_default();
                let found = ports.iter().find(|one| one["port"] == number);
                let found = found.ok_or_else(|| {
                    unavailable(&format!("no service port {number} found for service {name:?}"))
                })?;
                found["name"].as_str().unwrap_or_default().to_owned()
            }
        };
        let slices = Gvr::new("discovery.k8s.io", "v1", "endpointslices");
        let slices = self
            .list(slices, namespace, &format!("{SERVICE_LABEL}={name}"))
            .await
            .unwrap_or_default();
        let mut endpoints: Vec<PodEndpoint> = slices
            .iter()
            .flat_map(|slice| ready(slice, &port, secure))
            .collect();
        while !endpoints.is_empty() {
            let chosen = Uuid::new_v4().as_u64_pair().0 % endpoints.len() as u64;
            let endpoint = endpoints.swap_remove(chosen as usize);
            if self.is_of_pod(namespace, &endpoint).await {
                return Ok(endpoint.backend);
            }
        }
        Err(unavailable(&format!(
            "no endpoints available for service {name:?}"
        )))
    }

    /// Whether the endpoint's pod has this address now. Otherwise a user who may write EndpointSlices could make the
    /// server connect to any address.
    async fn is_of_pod(self, namespace: &str, endpoint: &PodEndpoint) -> bool {
        let Ok(pod) = self.pod(namespace, &endpoint.pod).await else {
            return false;
        };
        let mut addresses = pod["status"]["podIPs"].as_array().into_iter().flatten();
        let is_current = addresses.any(|one| one["ip"] == endpoint.backend.host.as_str());
        is_current && endpoint.backend.host.parse().is_ok_and(is_proxyable)
    }
}

/// A ready endpoint of a service, and the pod it refers to.
#[derive(Debug)]
struct PodEndpoint {
    backend: BackendAddress,
    pod: String,
}

/// The address of a node's kubelet, by the first of these types of addresses that the node has.
pub(crate) fn kubelet_address(node: &Value, name: &str, types: &[&str]) -> Option<BackendAddress> {
    let host = node_address(node, types)?;
    let port = &node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"];
    let port = port.as_u64().and_then(|port| u16::try_from(port).ok());
    Some(BackendAddress {
        secure: true,
        host: host.to_owned(),
        port: port.filter(|port| *port > 0).unwrap_or(DEFAULT_KUBELET_PORT),
        resolved: Vec::new(),
        node: Some(name.to_owned()),
    })
}

/// The node's address of the first of these types that it has.
fn node_address<'a>(node: &'a Value, types: &[&str]) -> Option<&'a str> {
    let addresses = node["status"]["addresses"].as_array()?;
    types.iter().find_map(|address_type| {
        let found = addresses.iter().find(|one| one["type"] == *address_type)?;
        found["address"].as_str()
    })
}

/// The ready endpoints of a slice that refer to pods.
fn ready(slice: &Value, port: &str, secure: bool) -> Vec<PodEndpoint> {
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let named = |one: &Value| one["name"].as_str().unwrap_or_default() == port;
    let ports = array(&slice["ports"]);
    let number = ports
        .iter()
        .find(|one| named(one))
        .and_then(|one| one["port"].as_u64());
    let Some(port) = number.and_then(|number| u16::try_from(number).ok()) else {
        return Vec::new();
    };
    let endpoint = |one: &Value| {
        let target = &one["targetRef"];
        let is_ready = one["conditions"]["ready"] != false && target["kind"] == "Pod";
        is_ready.then_some(PodEndpoint {
            backend: BackendAddress {
                secure,
                host: one["addresses"][0].as_str()?.to_owned(),
                port,
                resolved: Vec::new(),
                node: None,
            },
            pod: target["name"].as_str()?.to_owned(),
        })
    };
    array(&slice["endpoints"]).iter().filter_map(endpoint).collect()
}

/// A pod by its IP; the port is the requested one, or else the first of a container's ports.
pub(super) fn pod_backend(pod: &Value, port: &str, secure: bool) -> Result<BackendAddress, StatusError> {
    let host = pod["status"]["podIPs"][0]["ip"].as_str().unwrap_or_default();
    let allowed = host.parse::<IpAddr>().is_ok_and(is_proxyable);
    if !allowed {
        return Err(bad_request("address not allowed"));
    }
    let container_port = || {
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        let mut ports = containers.filter_map(|one| one["ports"][0]["containerPort"].as_u64());
        ports.next()
    };
    let fallback = if secure { 443 } else { 80 };
    let number = match port {
        "" => container_port()
            .and_then(|port| u16::try_from(port).ok())
            .unwrap_or(fallback),
        port => port
            .parse()
            .map_err(|_| bad_request(&format!("invalid port {port:?}")))?,
    };
    Ok(BackendAddress {
        secure,
        host: host.to_owned(),
        port: number,
        resolved: Vec::new(),
        node: None,
    })
}

/// Resolves the host of a backend and checks that the proxy may connect to all its addresses (upstream:
/// `isProxyableHostname`). The connection goes to these addresses, since a name may resolve to others a moment later.
pub(super) async fn resolve_proxyable(backend: BackendAddress) -> Result<BackendAddress, StatusError> {
    let host = backend.host.as_str();
    let resolved = tokio::net::lookup_host((host, backend.port)).await;
    let resolved = resolved.map_err(|_| bad_request(&format!("lookup {host}: no such host")))?;
    let resolved: Vec<IpAddr> = resolved.map(|address| address.ip().to_canonical()).collect();
    if resolved.is_empty() {
        return Err(bad_request("no addresses for hostname"));
    }
    match resolved.iter().copied().all(is_proxyable) {
        true => Ok(BackendAddress { resolved, ..backend }),
        false => Err(bad_request("address not allowed")),
    }
}

/// Whether the proxy may connect to an address: not loopback, link-local, multicast or unspecified, also not as an IPv4
/// address mapped to IPv6 (upstream: Go's `IsGlobalUnicast`).
fn is_proxyable(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let local = match address {
        IpAddr::V4(four) => four.is_link_local() || four.is_broadcast(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    };
    !(local || address.is_loopback() || address.is_unspecified() || address.is_multicast())
}

/// The container of a pod: the requested one, or the only one.
pub(super) fn container_name(pod: &Value, requested: &str) -> Result<String, StatusError> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let names = |list: &str| {
        let list = pod["spec"][list].as_array().into_iter().flatten();
        list.filter_map(|one| one["name"].as_str())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let all = [
        names("initContainers"),
        names("containers"),
        names("ephemeralContainers"),
    ]
    .concat();
    if !requested.is_empty() {
        return match all.iter().any(|one| one == requested) {
            true => Ok(requested.to_owned()),
            false => Err(bad_request(&format!(
                "container {requested} is not valid for pod {name}"
            ))),
        };
    }
    match names("containers").as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(bad_request(&format!(
            "a container name must be specified for pod {name}"
        ))),
        _ => {
            let choice = all.join(" ");
            let message =
                format!("a container name must be specified for pod {name}, choose one of: [{choice}]");
            Err(bad_request(&message))
        }
    }
}

pub(super) fn bad_request(message: &str) -> StatusError {
    Box::new(Status::bad_request(message))
}

pub(super) fn internal(message: &str) -> StatusError {
    Box::new(Status::internal(message))
}

/// A 500 without a reason, as upstream returns it.
pub(super) fn plain_error(message: &str) -> StatusError {
    Box::new(Status {
        status: "Failure".to_owned(),
        message: message.to_owned(),
        code: 500,
        ..Status::default()
    })
}

pub(super) fn unavailable(message: &str) -> StatusError {
    Box::new(Status {
        status: "Failure".to_owned(),
        message: message.to_owned(),
        reason: "ServiceUnavailable".to_owned(),
        code: 503,
        ..Status::default()
    })
}

#[cfg(test)]
mod tests;
