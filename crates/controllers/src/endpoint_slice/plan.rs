//! Which EndpointSlices a Service should have. Pure.
//!
//! An endpoint stays in its slice, so that a pod that is added or deleted changes one slice and not all of them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, ForNode, ForZone,
};

use crate::endpoint_pods::{self, EndpointPod};

/// The most endpoints in a slice.
pub(crate) const SLICE_ENDPOINTS: usize = 100;

pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub(crate) const MANAGER: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";

/// What to do about the slices of a Service. Those to create have no name yet.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    pub(crate) create: Vec<EndpointSlice>,
    pub(crate) update: Vec<EndpointSlice>,
    pub(crate) delete: Vec<EndpointSlice>,
}

/// Endpoints of one address type with the same ports, by the uid of the pod.
type Group = BTreeMap<String, Endpoint>;

/// Plans for a Service with these pods and these managed slices. `zone` returns the zone of a node.
pub(crate) fn plan(
    service: &Service,
    pods: &[EndpointPod],
    slices: &[EndpointSlice],
    zone: impl Fn(&str) -> Option<String>,
) -> Plan {
    let mut plan = Plan::default();
    let types = address_types(service);
    for address_type in &types {
        let groups = groups(service, pods, address_type, &zone);
        let own: Vec<&EndpointSlice> = slices
            .iter()
            .filter(|slice| slice.address_type == *address_type)
            .collect();
        plan_type(&mut plan, service, address_type, groups, &own);
    }
    let outdated = slices.iter().filter(|slice| !types.contains(&slice.address_type));
    plan.delete.extend(outdated.cloned());
    plan
}

/// The address types of the Service.
fn address_types(service: &Service) -> Vec<String> {
    let families = service.spec.as_ref().and_then(|spec| spec.ip_families.clone());
    families
        .filter(|families| !families.is_empty())
        .unwrap_or_else(|| vec!["IPv4".to_owned()])
}

/// The endpoints that should exist, grouped by their ports.
fn groups(
    service: &Service,
    pods: &[EndpointPod],
    address_type: &str,
    zone: &impl Fn(&str) -> Option<String>,
) -> Vec<(Vec<EndpointPort>, Group)> {
    let mut groups: Vec<(Vec<EndpointPort>, Group)> = Vec::new();
    for pod in pods {
        let ports = ports(service, pod);
        let endpoint = endpoint(service, pod, address_type, zone);
        if endpoint.addresses.is_empty() {
            continue;
        }
        let uid = pod.pod.object().uid().to_owned();
        match groups.iter_mut().find(|(own, _)| *own == ports) {
            Some((_, group)) => drop(group.insert(uid, endpoint)),
            None => groups.push((ports, Group::from([(uid, endpoint)]))),
        }
    }
    groups
}

fn ports(service: &Service, pod: &EndpointPod) -> Vec<EndpointPort> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let port = |port: &ServicePort| {
        Some(EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(pod.port(port)?),
            protocol: port.protocol.clone(),
            app_protocol: port.app_protocol.clone(),
        })
    };
    ports.filter_map(port).collect()
}

fn endpoint(
    service: &Service,
    pod: &EndpointPod,
    address_type: &str,
    zone: &impl Fn(&str) -> Option<String>,
) -> Endpoint {
    let spec = service.spec.as_ref();
    let publishes_all = spec.and_then(|spec| spec.publish_not_ready_addresses) == Some(true);
    let (serving, terminating) = (pod.is_ready(), pod.is_terminating());
    let ready = publishes_all || (serving && !terminating);
    let addresses = pod
        .view
        .ips
        .iter()
        .filter(|ip| ip.contains(':') == (address_type == "IPv6"));
    let zone = zone(pod.node());
    let distribution = spec.and_then(|spec| spec.traffic_distribution.as_deref());
    Endpoint {
        addresses: addresses.map(ToString::to_string).collect(),
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hints: hints(distribution.filter(|_| ready), zone.as_deref(), pod.node()),
        hostname: pod.hostname(service),
        node_name: pod.node_name(),
        target_ref: Some(pod.reference()),
        zone,
        deprecated_topology: None,
    }
}

/// The topology hints of an endpoint, by the Service's traffic distribution.
fn hints(distribution: Option<&str>, zone: Option<&str>, node: &str) -> Option<EndpointHints> {
    let for_zones = zone.map(|zone| {
        vec![ForZone {
            name: zone.to_owned(),
        }]
    });
    match distribution {
        Some("PreferClose" | "PreferSameZone") => for_zones.map(|zones| EndpointHints {
            for_zones: Some(zones),
            for_nodes: None,
        }),
        Some("PreferSameNode") if !node.is_empty() => Some(EndpointHints {
            for_zones,
            for_nodes: Some(vec![ForNode {
                name: node.to_owned(),
            }]),
        }),
        _ => None,
    }
}

/// Plans the slices of one address type.
fn plan_type(
    plan: &mut Plan,
    service: &Service,
    address_type: &str,
    groups: Vec<(Vec<EndpointPort>, Group)>,
    own: &[&EndpointSlice],
) {
    let groups = match groups.is_empty() {
        // A Service without any endpoint has one empty slice.
        true => vec![(Vec::new(), Group::new())],
        false => groups,
    };
    let mut left: Vec<&EndpointSlice> = own.to_vec();
    let mut created = Vec::new();
    for (ports, group) in groups {
        let same_ports = |slice: &&EndpointSlice| slice.ports.clone().unwrap_or_default() == ports;
        let (mine, others): (Vec<_>, Vec<_>) = left.into_iter().partition(same_ports);
        left = others;
        let blank = blank(service, address_type, ports);
        pack(plan, &mut created, &blank, group, &mine);
    }
    // An unneeded slice is updated into a new one instead of being deleted.
    while !left.is_empty()
        && let Some(new) = created.pop()
    {
        plan.update.push(renewed(left.remove(0), new));
    }
    plan.create.extend(created);
    plan.delete.extend(left.into_iter().cloned());
}

/// Distributes the endpoints of a group over its slices, with as few changes as possible.
fn pack(
    plan: &mut Plan,
    created: &mut Vec<EndpointSlice>,
    blank: &EndpointSlice,
    mut group: Group,
    mine: &[&EndpointSlice],
) {
    let is_empty_group = group.is_empty();
    let mut kept: Vec<(&EndpointSlice, Vec<Endpoint>)> = Vec::new();
    for slice in mine {
        let uids = slice.endpoints.iter().flatten().filter_map(uid);
        let endpoints: Vec<Endpoint> = uids.filter_map(|uid| group.remove(&uid)).collect();
        kept.push((slice, endpoints));
    }
    let mut rest: Vec<Endpoint> = group.into_values().collect();
    // Slices that change anyway are filled first, then the fullest one with room for all the rest.
    let changes = |slice: &EndpointSlice, endpoints: &[Endpoint]| {
        slice.endpoints.as_deref().unwrap_or_default() != endpoints
    };
    for (slice, endpoints) in &mut kept {
        let capacity = SLICE_ENDPOINTS.saturating_sub(endpoints.len());
        if changes(slice, endpoints) && !endpoints.is_empty() {
            endpoints.extend(rest.drain(..rest.len().min(capacity)));
        }
    }
    while rest.len() >= SLICE_ENDPOINTS {
        created.push(filled(blank, rest.drain(..SLICE_ENDPOINTS).collect()));
    }
    if !rest.is_empty() {
        let fits = |(_, endpoints): &&mut (&EndpointSlice, Vec<Endpoint>)| {
            endpoints.len() + rest.len() <= SLICE_ENDPOINTS
        };
        let fullest = kept
            .iter_mut()
            .filter(fits)
            .max_by_key(|(_, endpoints)| endpoints.len());
        match fullest {
            Some((_, endpoints)) => endpoints.append(&mut rest),
            None => created.push(filled(blank, rest)),
        }
    }
    if is_empty_group && kept.is_empty() {
        created.push(blank.clone());
    }
    let mut has_empty = false;
    for (slice, endpoints) in kept {
        if endpoints.is_empty() && (!is_empty_group || has_empty) {
            plan.delete.push(slice.clone());
            continue;
        }
        has_empty |= endpoints.is_empty();
        let desired = renewed(slice, filled(blank, endpoints));
        if !is_equivalent(&desired, slice) {
            plan.update.push(desired);
        }
    }
}

/// Whether two slices are equivalent; an empty list and an absent one are the same.
fn is_equivalent(a: &EndpointSlice, b: &EndpointSlice) -> bool {
    let lists = |slice: &EndpointSlice| {
        (
            slice.endpoints.clone().unwrap_or_default(),
            slice.ports.clone().unwrap_or_default(),
        )
    };
    a.metadata.labels == b.metadata.labels && lists(a) == lists(b)
}

fn uid(endpoint: &Endpoint) -> Option<String> {
    endpoint.target_ref.as_ref()?.uid.clone()
}

fn filled(blank: &EndpointSlice, endpoints: Vec<Endpoint>) -> EndpointSlice {
    EndpointSlice {
        endpoints: Some(endpoints),
        ..blank.clone()
    }
}

/// The new slice under the name of the old one.
fn renewed(old: &EndpointSlice, new: EndpointSlice) -> EndpointSlice {
    let mut metadata = old.metadata.clone();
    metadata.labels = new.metadata.labels;
    EndpointSlice { metadata, ..new }
}

/// A slice of the service without endpoints.
fn blank(service: &Service, address_type: &str, ports: Vec<EndpointPort>) -> EndpointSlice {
    let name = service.metadata.name.as_deref().unwrap_or_default();
    let mut slice = EndpointSlice {
        address_type: address_type.to_owned(),
        endpoints: Some(Vec::new()),
        ports: Some(ports),
        ..EndpointSlice::default()
    };
    slice.metadata.generate_name = Some(format!("{name}-"));
    slice.metadata.namespace = service.metadata.namespace.clone();
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if endpoint_pods::is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(SERVICE_NAME.to_owned(), name.to_owned());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    slice.metadata.labels = Some(labels);
    slice
}
