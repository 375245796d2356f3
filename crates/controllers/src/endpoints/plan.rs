//! The Endpoints object that a Service should have. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service, ServicePort,
};

use crate::endpoint_pods::{self, EndpointPod};

pub(crate) const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
pub(crate) const MANAGER: &str = "endpoint-controller";
const HEADLESS: &str = "service.kubernetes.io/headless";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// The most addresses in an Endpoints object.
const MAX_ADDRESSES: usize = 1000;

/// The object that a Service with these pods should have, based on the current one.
pub(crate) fn desired(service: &Service, pods: &[EndpointPod], current: Option<&Endpoints>) -> Endpoints {
    let mut endpoints = current.cloned().unwrap_or_default();
    endpoints.metadata.name = service.metadata.name.clone();
    endpoints.metadata.namespace = service.metadata.namespace.clone();
    endpoints.metadata.labels = Some(labels(service));
    let (subsets, is_cut) = subsets(service, pods);
    endpoints.subsets = (!subsets.is_empty()).then_some(subsets);
    let annotations = endpoints.metadata.annotations.get_or_insert_default();
    match is_cut {
        true => drop(annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned())),
        false => drop(annotations.remove(OVER_CAPACITY)),
    }
    if annotations.is_empty() {
        endpoints.metadata.annotations = None;
    }
    endpoints
}

fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if endpoint_pods::is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

/// The addresses, grouped by their ports, and whether some had to be left out.
fn subsets(service: &Service, pods: &[EndpointPod]) -> (Vec<EndpointSubset>, bool) {
    let spec = service.spec.as_ref();
    let publishes_all = spec.and_then(|spec| spec.publish_not_ready_addresses) == Some(true);
    let family = spec.and_then(|spec| spec.ip_families.as_ref()?.first().cloned());
    let wants_six = family.as_deref() == Some("IPv6");
    let mut subsets: Vec<EndpointSubset> = Vec::new();
    let mut total = 0;
    let mut is_cut = false;
    for pod in pods.iter().filter(|pod| publishes_all || !pod.is_terminating()) {
        let ip = pod.view.ips.iter().find(|ip| ip.contains(':') == wants_six);
        let ports = ports(service, pod);
        let (Some(ip), false) = (ip, ports.is_empty() && !endpoint_pods::is_headless(service)) else {
            continue;
        };
        if total == MAX_ADDRESSES {
            is_cut = true;
            break;
        }
        total += 1;
        let ports = (!ports.is_empty()).then_some(ports);
        let at = subsets.iter().position(|subset| subset.ports == ports);
        let at = at.unwrap_or_else(|| {
            subsets.push(EndpointSubset {
                ports,
                ..EndpointSubset::default()
            });
            subsets.len() - 1
        });
        let subset = &mut subsets[at];
        let addresses = match publishes_all || pod.is_ready() {
            true => &mut subset.addresses,
            false => &mut subset.not_ready_addresses,
        };
        addresses.get_or_insert_default().push(address(service, pod, ip));
    }
    for subset in &mut subsets {
        for addresses in [&mut subset.addresses, &mut subset.not_ready_addresses]
            .into_iter()
            .flatten()
        {
            addresses.sort_by(|a, b| a.ip.cmp(&b.ip));
        }
    }
    (subsets, is_cut)
}

fn address(service: &Service, pod: &EndpointPod, ip: &str) -> EndpointAddress {
    EndpointAddress {
        ip: ip.to_owned(),
        hostname: pod.hostname(service),
        node_name: pod.node_name(),
        target_ref: Some(pod.reference()),
    }
}

fn ports(service: &Service, pod: &EndpointPod) -> Vec<EndpointPort> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let port = |port: &ServicePort| {
        Some(EndpointPort {
            name: port.name.clone().filter(|name| !name.is_empty()),
            port: pod.port(port)?,
            protocol: port.protocol.clone(),
            app_protocol: port.app_protocol.clone(),
        })
    };
    let mut ports: Vec<EndpointPort> = ports.filter_map(port).collect();
    ports.sort_by(|a, b| (&a.name, a.port).cmp(&(&b.name, b.port)));
    ports
}
