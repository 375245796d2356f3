//! The pods behind services: which they are, and at which addresses and ports they answer.

use std::sync::Arc;

use compact_str::CompactString;
use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize;
use setpoint_api::{Change, Key, Stored};
use setpoint_runtime::{Lister, Typed};

/// A pod as services see it.
#[derive(Debug, Clone)]
pub(crate) struct Backend {
    pub(crate) object: Arc<Stored>,
    pub(crate) view: Arc<BackendView>,
}

/// What a service looks at in a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawPod")]
pub(crate) struct BackendView {
    pub(crate) ips: Vec<CompactString>,
    pub(crate) node: CompactString,
    pub(crate) hostname: CompactString,
    pub(crate) subdomain: CompactString,
    pub(crate) ready: bool,
    is_finished: bool,
    ports: Vec<ContainerPort>,
}

/// What a service picks, read without the rest of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Picks {
    spec: PicksSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PicksSpec {
    selector: std::collections::BTreeMap<CompactString, CompactString>,
}

/// The services of the pod's namespace that pick it, or picked it before the change.
pub(crate) fn services_of(services: &Lister<Service>, change: &Change) -> Vec<Key> {
    let picked = |service: &Typed<Service>| {
        let Ok(picks) = service.view::<Picks>() else {
            return false;
        };
        let selector = &picks.spec.selector;
        let picks = |pod: &Arc<Stored>| {
            selector
                .iter()
                .all(|(name, value)| pod.label(name) == Some(value))
        };
        !selector.is_empty() && (picks(change.object()) || change.old().is_some_and(picks))
    };
    let all = services.in_namespace(change.key().namespace());
    let keys: Vec<Key> = all
        .into_iter()
        .filter(picked)
        .map(|service| service.key().clone())
        .collect();
    // Most changes of a pod are nothing to services; it is looked into only where there is one that picks it.
    match change {
        Change::Modified { old, new } if !keys.is_empty() && same_to_services(old, new) => Vec::new(),
        _ => keys,
    }
}

fn same_to_services(old: &Arc<Stored>, new: &Arc<Stored>) -> bool {
    old.header().labels == new.header().labels
        && old.header().deleting == new.header().deleting
        && Backend::read(old.clone()).view == Backend::read(new.clone()).view
}

/// The pods that a service picks and that have an address and have not come to their end.
pub(crate) fn of(pods: &Lister<Pod>, namespace: &str, service: &Service) -> Vec<Backend> {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let Some(selector) = selector else {
        return Vec::new();
    };
    let picks = |pod: &Stored| {
        selector
            .iter()
            .all(|(name, value)| pod.label(name) == Some(value))
    };
    let pods = pods.in_namespace(namespace).into_iter().filter(|pod| picks(pod));
    let backends = pods.map(|pod| Backend::read(pod.into_stored()));
    backends
        .filter(|pod| !pod.view.is_finished && !pod.view.ips.is_empty())
        .collect()
}

// === impl Backend ===

impl Backend {
    /// Reads a pod. One that cannot be read has no address.
    fn read(object: Arc<Stored>) -> Self {
        let view = object.view::<BackendView>().unwrap_or_default();
        Self { object, view }
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.object.header().deleting
    }

    /// The number of the port that the service means; nothing if the pod has no port of that name.
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

    /// Its own name, where the service gives its pods names.
    pub(crate) fn hostname(&self, service: &Service) -> Option<String> {
        let view = &self.view;
        let is_named =
            !view.hostname.is_empty() && Some(view.subdomain.as_str()) == service.metadata.name.as_deref();
        is_named.then(|| view.hostname.to_string())
    }

    pub(crate) fn node(&self) -> Option<String> {
        (!self.view.node.is_empty()).then(|| self.view.node.to_string())
    }

    pub(crate) fn reference(&self) -> ObjectReference {
        ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: Some(self.object.key().namespace().to_owned()),
            name: Some(self.object.key().name().to_owned()),
            uid: Some(self.object.uid().to_owned()),
            ..ObjectReference::default()
        }
    }
}

/// Whether the service has no address of its own.
pub(crate) fn is_headless(service: &Service) -> bool {
    let ip = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
    ip == Some("None")
}

// === impl BackendView ===

impl From<RawPod> for BackendView {
    fn from(pod: RawPod) -> Self {
        let ips = pod.status.pod_ips.into_iter().map(|own| own.ip);
        let ready = pod
            .status
            .conditions
            .iter()
            .any(|one| one.type_ == "Ready" && one.status == "True");
        let sidecars = pod
            .spec
            .init_containers
            .into_iter()
            .filter(|one| one.restart_policy == "Always");
        let ports = pod.spec.containers.into_iter().chain(sidecars);
        Self {
            ips: ips.collect(),
            node: pod.spec.node_name,
            hostname: pod.spec.hostname,
            subdomain: pod.spec.subdomain,
            ready,
            is_finished: matches!(pod.status.phase.as_str(), "Succeeded" | "Failed"),
            ports: ports
                .flat_map(|container| container.ports)
                .filter(|port| !port.name.is_empty())
                .collect(),
        }
    }
}

// The document as it is written, as far as it matters here.

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPod {
    spec: RawSpec,
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSpec {
    node_name: CompactString,
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
    phase: CompactString,
    #[serde(rename = "podIPs")]
    pod_ips: Vec<RawIp>,
    conditions: Vec<RawCondition>,
}

#[derive(Deserialize)]
struct RawIp {
    ip: CompactString,
}

#[derive(Deserialize)]
struct RawCondition {
    #[serde(rename = "type")]
    type_: CompactString,
    status: CompactString,
}
