//! Pods as endpoints of Services: which a Service selects, and their addresses and ports.

use std::sync::Arc;

use compact_str::CompactString;
use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;
use setpoint_api::{Change, Key, Stored};
use setpoint_runtime::{Lister, TypedObject};

use crate::pods;

/// A pod as an endpoint.
#[derive(Debug, Clone)]
pub(crate) struct EndpointPod {
    pub(crate) pod: pods::Pod,
    pub(crate) view: Arc<EndpointPodView>,
}

/// The fields of a pod that its endpoints depend on, in addition to [`pods::Pod`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawPod")]
pub(crate) struct EndpointPodView {
    pub(crate) ips: Vec<CompactString>,
    pub(crate) hostname: CompactString,
    pub(crate) subdomain: CompactString,
    ports: Vec<ContainerPort>,
}

/// The selector of a Service, read without the rest of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServiceSelector {
    spec: ServiceSelectorSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServiceSelectorSpec {
    selector: std::collections::BTreeMap<CompactString, CompactString>,
}

/// The Services of the pod's namespace that select it, or did before the change.
pub(crate) fn services_of(services: &Lister<Service>, change: &Change) -> Vec<Key> {
    let selects_pod = |service: &TypedObject<Service>| {
        let Ok(view) = service.view::<ServiceSelector>() else {
            return false;
        };
        let selector = &view.spec.selector;
        let selects = |pod: &Arc<Stored>| {
            selector
                .iter()
                .all(|(name, value)| pod.label(name) == Some(value))
        };
        !selector.is_empty() && (selects(change.object()) || change.old().is_some_and(selects))
    };
    let all = services.in_namespace(change.key().namespace());
    let keys: Vec<Key> = all
        .into_iter()
        .filter(selects_pod)
        .map(|service| service.key().clone())
        .collect();
    // Most changes of a pod do not concern its endpoints; that is checked only if a Service selects it.
    match change {
        Change::Modified { old, new } if !keys.is_empty() && is_same_endpoint(old, new) => Vec::new(),
        _ => keys,
    }
}

fn is_same_endpoint(old: &Arc<Stored>, new: &Arc<Stored>) -> bool {
    let (before, after) = (EndpointPod::read(old.clone()), EndpointPod::read(new.clone()));
    old.header().labels == new.header().labels
        && old.header().deleting == new.header().deleting
        && before.view == after.view
        && before.node() == after.node()
        && before.is_ready() == after.is_ready()
        && before.pod.is_finished() == after.pod.is_finished()
}

/// The pods that a Service selects, that have an address and have not finished.
pub(crate) fn selected_by(pods: &Lister<Pod>, namespace: &str, service: &Service) -> Vec<EndpointPod> {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let Some(selector) = selector else {
        return Vec::new();
    };
    let selects = |pod: &Stored| {
        selector
            .iter()
            .all(|(name, value)| pod.label(name) == Some(value))
    };
    let pods = pods
        .in_namespace(namespace)
        .into_iter()
        .filter(|pod| selects(pod));
    let backends = pods.map(|pod| EndpointPod::read(pod.into_stored()));
    backends
        .filter(|pod| !pod.pod.is_finished() && !pod.view.ips.is_empty())
        .collect()
}

// === impl EndpointPod ===

impl EndpointPod {
    /// Reads a pod. One that cannot be decoded has no address.
    fn read(object: Arc<Stored>) -> Self {
        let view = object.view::<EndpointPodView>().unwrap_or_default();
        let pod = pods::Pod::read(object);
        Self { pod, view }
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.pod.is_deleting()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.pod.view().is_ready()
    }

    /// The node that it is bound to; empty if it is not.
    pub(crate) fn node(&self) -> &str {
        &self.pod.view().node
    }

    /// The target port of a Service port in this pod; `None` if the pod has no port of that name.
    pub(crate) fn port(&self, port: &ServicePort) -> Option<i32> {
        match &port.target_port {
            None => Some(port.port),
            Some(IntOrString::Int(0)) => Some(port.port),
            Some(IntOrString::Int(number)) => Some(*number),
            Some(IntOrString::String(name)) => {
                let protocol = port.protocol.as_deref().unwrap_or("TCP");
                let found = self
                    .view
                    .ports
                    .iter()
                    .find(|own| own.name == *name && own.protocol == protocol);
                found.map(|own| own.number)
            }
        }
    }

    /// Its hostname, if the Service is the pod's subdomain.
    pub(crate) fn hostname(&self, service: &Service) -> Option<String> {
        let view = &self.view;
        let is_named =
            !view.hostname.is_empty() && Some(view.subdomain.as_str()) == service.metadata.name.as_deref();
        is_named.then(|| view.hostname.to_string())
    }

    pub(crate) fn node_name(&self) -> Option<String> {
        let node = self.node();
        (!node.is_empty()).then(|| node.to_owned())
    }

    pub(crate) fn reference(&self) -> ObjectReference {
        let object = self.pod.object();
        ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: Some(object.key().namespace().to_owned()),
            name: Some(object.key().name().to_owned()),
            uid: Some(object.uid().to_owned()),
            ..ObjectReference::default()
        }
    }
}

/// Whether the Service is headless.
pub(crate) fn is_headless(service: &Service) -> bool {
    let ip = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
    ip == Some("None")
}

// === impl EndpointPodView ===

impl From<RawPod> for EndpointPodView {
    fn from(pod: RawPod) -> Self {
        let ips = pod.status.pod_ips.into_iter().map(|own| own.ip);
        let sidecars = pod
            .spec
            .init_containers
            .into_iter()
            .filter(|one| one.restart_policy == "Always");
        let ports = pod.spec.containers.into_iter().chain(sidecars);
        Self {
            ips: ips.collect(),
            hostname: pod.spec.hostname,
            subdomain: pod.spec.subdomain,
            ports: ports
                .flat_map(|container| container.ports)
                .filter(|port| !port.name.is_empty())
                .collect(),
        }
    }
}

// The pod as serialized, limited to the fields read here.

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPod {
    spec: RawSpec,
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSpec {
    hostname: CompactString,
    subdomain: CompactString,
    containers: Vec<RawContainer>,
    init_containers: Vec<RawContainer>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawContainer {
    restart_policy: CompactString,
    ports: Vec<ContainerPort>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct ContainerPort {
    name: CompactString,
    #[serde(rename = "containerPort")]
    number: i32,
    protocol: CompactString,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawStatus {
    #[serde(rename = "podIPs")]
    pod_ips: Vec<RawIp>,
}

#[derive(Deserialize)]
struct RawIp {
    ip: CompactString,
}
