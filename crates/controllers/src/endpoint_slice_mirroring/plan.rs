//! The EndpointSlices that mirror a manually written Endpoints object. Pure.

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};

pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub(crate) const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIPPED: &str = "endpointslice.kubernetes.io/skip-mirror";
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
const NOT_MIRRORED: [&str; 2] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "endpoints.kubernetes.io/last-change-trigger-time",
];
/// The most addresses mirrored from a subset.
const MAX_ADDRESSES: usize = 1000;

/// Whether the object is to be mirrored.
pub(crate) fn is_mirrored(endpoints: &Endpoints) -> bool {
    let labels = endpoints.metadata.labels.as_ref();
    let annotations = endpoints.metadata.annotations.as_ref();
    let is_skipped = labels
        .and_then(|own| own.get(SKIPPED))
        .is_some_and(|word| word == "true");
    !is_skipped && !annotations.is_some_and(|own| own.contains_key(LEADER))
}

/// The slices that should exist, without names: one for each subset and address type.
pub(crate) fn desired(endpoints: &Endpoints) -> Vec<EndpointSlice> {
    let subsets = endpoints.subsets.iter().flatten();
    let slices = subsets.flat_map(|subset| ["IPv4", "IPv6"].map(|family| slice(endpoints, subset, family)));
    slices.flatten().collect()
}

/// Whether a slice is equivalent to a desired one.
pub(crate) fn is_equivalent(slice: &EndpointSlice, desired: &EndpointSlice) -> bool {
    slice.address_type == desired.address_type
        && slice.ports.clone().unwrap_or_default() == desired.ports.clone().unwrap_or_default()
        && slice.endpoints == desired.endpoints
        && slice.metadata.labels == desired.metadata.labels
        && slice.metadata.annotations == desired.metadata.annotations
}

fn slice(endpoints: &Endpoints, subset: &EndpointSubset, family: &str) -> Option<EndpointSlice> {
    let of_family = |address: &&EndpointAddress| address.ip.contains(':') == (family == "IPv6");
    let ready = subset
        .addresses
        .iter()
        .flatten()
        .filter(of_family)
        .map(|address| endpoint(address, true));
    let unready = subset
        .not_ready_addresses
        .iter()
        .flatten()
        .filter(of_family)
        .map(|address| endpoint(address, false));
    let addresses: Vec<Endpoint> = ready.chain(unready).take(MAX_ADDRESSES).collect();
    if addresses.is_empty() {
        return None;
    }
    let ports = subset.ports.iter().flatten().map(|port| EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: port.protocol.clone(),
        app_protocol: port.app_protocol.clone(),
    });
    let mut slice = EndpointSlice {
        address_type: family.to_owned(),
        endpoints: Some(addresses),
        ports: Some(ports.collect()),
        ..EndpointSlice::default()
    };
    let name = endpoints.metadata.name.clone().unwrap_or_default();
    slice.metadata.generate_name = Some(format!("{name}-"));
    slice.metadata.namespace.clone_from(&endpoints.metadata.namespace);
    let mut labels = endpoints.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), name);
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    slice.metadata.labels = Some(labels);
    let mut annotations = endpoints.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|name, _| !NOT_MIRRORED.contains(&name.as_str()));
    slice.metadata.annotations = (!annotations.is_empty()).then_some(annotations);
    Some(slice)
}

fn endpoint(address: &EndpointAddress, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            ..EndpointConditions::default()
        }),
        hostname: address.hostname.clone().filter(|name| !name.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}
