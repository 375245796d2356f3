//! Allocation and release of cluster IPs and node ports of Services.
//!
//! A cluster IP is allocated by an IPAddress object that is written together with the Service, so that no two Services can
//! get the same. Node ports have no such object. One server remembers a port that it has just allocated until the cache has
//! it; where several servers share the store, the write has a conflict if there is a Service that the cache did not have.

mod owner;

use std::collections::HashMap;
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rand::Rng;
use serde::Deserialize;

use setpoint_api::field::{Errors, FieldError};
use setpoint_api::{GroupResource, Key, Status};
use setpoint_kinds::bootstrap::server_objects;
use setpoint_kinds::core::service::{NO_ADDRESS, allocation};
use setpoint_registry_api::{Operation, Review, SideWrite};
use setpoint_schema::{Tree, fields};
use setpoint_strategy::meta;
use setpoint_values::Cidr;

use crate::chain::{Config, Plugin};
use crate::review;

/// How many random candidates are tried before all are tried in order.
const RANDOM_TRIES: usize = 32;
/// How long an allocated port is remembered; by then the cache has its Service.
const RECENT_PORT_TTL: SignedDuration = SignedDuration::from_secs(10);

/// Allocates the cluster IPs and node ports of Services.
#[derive(Debug)]
pub(crate) struct ServiceAddresses {
    range: Cidr,
    ports: (u16, u16),
    /// Recently allocated ports, with the Service and the time; none if other servers share the store.
    recent_ports: Mutex<HashMap<i64, (Key, Timestamp)>>,
    shares_store: bool,
}

/// The node ports of a Service.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Service {
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    ports: Vec<Port>,
    health_check_node_port: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Port {
    node_port: i64,
}

impl ServiceAddresses {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            range: config.service_cidr,
            ports: config.node_port_range,
            recent_ports: Mutex::default(),
            shares_store: config.shares_store,
        }
    }
}

impl Plugin for ServiceAddresses {
    fn name(&self) -> &'static str {
        "ServiceAddresses"
    }

    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let written = matches!(review.operation, Operation::Create | Operation::Update);
        if !written || !review::is_resource(review, "", "services") {
            return Ok(());
        }
        let old = review.decode_old();
        let Some(service) = review.object.as_deref_mut() else {
            return Ok(());
        };
        allocation::keep_allocated(service, old.as_ref());
        let family = if self.range.is_v6() { "IPv6" } else { "IPv4" };
        if let Err(errors) = allocation::default_ip_families(service, old.as_ref(), &[family]) {
            return Err(invalid(review, &errors));
        }
        self.allocate_addresses(review, old.as_ref())?;
        self.allocate_ports(review, old.as_ref())
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !review::is_resource(review, "", "services") {
            return Ok(());
        }
        let old = review.decode_old();
        let before = old.as_ref().map(addresses).unwrap_or_default();
        let is_deleted = match (review.operation, review.object.as_deref()) {
            (Operation::Delete, _) => !review.old.is_some_and(|old| old.header().has_finalizers),
            (_, Some(service)) => meta::is_deleting(service) && meta::find(service, "finalizers").is_none(),
            _ => false,
        };
        let after = match review.object.as_deref() {
            _ if is_deleted => Vec::new(),
            Some(service) => addresses(service),
            None => before.clone(),
        };
        for address in after.iter().filter(|address| !before.contains(address)) {
            let object =
                server_objects::ip_address_of(address, address.contains(':'), review.namespace, review.name);
            let resource = ip_addresses();
            review.side_writes.push(SideWrite::Create { resource, object });
        }
        for address in before.iter().filter(|address| !after.contains(address)) {
            if let Some(old) = review.find(&ip_addresses(), &Key::new("", address)) {
                let resource = ip_addresses();
                review.side_writes.push(SideWrite::Delete { resource, old });
            }
        }
        Ok(())
    }
}

fn services() -> GroupResource {
    GroupResource::new("", "services")
}

fn ip_addresses() -> GroupResource {
    GroupResource::new("networking.k8s.io", "ipaddresses")
}

fn invalid(review: &Review<'_>, errors: &[FieldError]) -> Status {
    Status::invalid(&review.kind.gvk, review.name, errors)
}

/// The cluster IPs of a Service; none for an ExternalName Service.
fn addresses(service: &Tree) -> Vec<String> {
    let spec = service.get("spec");
    if spec.and_then(|spec| spec.str_at(&[fields::TYPE])) == Some("ExternalName") {
        return Vec::new();
    }
    let listed = spec
        .map(|spec| spec.items(fields::CLUSTER_IPS))
        .unwrap_or_default();
    let texts = listed.iter().filter_map(Tree::as_str);
    texts
        .filter(|text| !text.is_empty() && *text != NO_ADDRESS)
        .map(str::to_owned)
        .collect()
}

// === addresses ===

impl ServiceAddresses {
    fn allocate_addresses(&self, review: &mut Review<'_>, old: Option<&Tree>) -> Result<(), Status> {
        let Some(spec) = review.object.as_deref().and_then(|service| service.get("spec")) else {
            return Ok(());
        };
        let headless = spec.str_at(&[fields::CLUSTER_IP]) == Some(NO_ADDRESS);
        if headless || spec.str_at(&[fields::TYPE]) == Some("ExternalName") {
            return Ok(());
        }
        let before = old.map(addresses).unwrap_or_default();
        let requested: Vec<String> = spec
            .items(fields::CLUSTER_IPS)
            .iter()
            .filter_map(Tree::as_str)
            .map(str::to_owned)
            .collect();
        let families = spec.items(fields::IP_FAMILIES).len();
        for address in requested.iter().filter(|address| !before.contains(address)) {
            self.check_address(review, address, &requested)?;
        }
        let mut allocated = requested.clone();
        while allocated.len() < families.max(1) {
            allocated.push(self.free_address(review, &requested)?);
        }
        for address in allocated.iter().filter(|address| !before.contains(address)) {
            owner::check(review, address, &requested)?;
        }
        if allocated != requested
            && let Some(service) = review.object.as_deref_mut()
        {
            let list: Vec<Tree> = allocated
                .iter()
                .map(|address| Tree::from(address.as_str()))
                .collect();
            service.set(&[fields::SPEC, fields::CLUSTER_IP], allocated[0].as_str());
            service.set(&[fields::SPEC, fields::CLUSTER_IPS], list);
        }
        Ok(())
    }

    fn check_address(&self, review: &Review<'_>, text: &str, requested: &[String]) -> Result<(), Status> {
        // Validation of the Service reports a text that is not an address.
        let Ok(address) = text.parse::<IpAddr>() else {
            return Ok(());
        };
        let why = if !self.range.contains(address) {
            "the provided network does not match the current range".to_owned()
        } else if is_allocated(review, address) {
            "provided IP is already allocated".to_owned()
        } else {
            return Ok(());
        };
        let errors = Errors::default();
        let detail = format!("failed to allocate IP {text}: {why}");
        errors
            .at(fields::SPEC)
            .at(fields::CLUSTER_IPS)
            .invalid(requested, &detail);
        Err(invalid(review, &errors.into_vec()))
    }

    /// A random free address, so that two servers that allocate at once rarely choose the same.
    fn free_address(&self, review: &Review<'_>, requested: &[String]) -> Result<String, Status> {
        // The first address and, for IPv4, the last (broadcast) one are not used.
        let last = self.range.size() - if self.range.is_v6() { 0 } else { 1 };
        let free = |at: u128| {
            self.range
                .nth(at)
                .filter(|address| !is_allocated(review, *address))
        };
        let mut random = rand::rng();
        let tried = (0..RANDOM_TRIES).find_map(|_| free(random.random_range(1..last.max(2))));
        let found = tried.or_else(|| (1..last.min(1 << 20)).find_map(free));
        found.map(|address| address.to_string()).ok_or_else(|| {
            let errors = Errors::default();
            let path = errors.at(fields::SPEC).at(fields::CLUSTER_IPS);
            path.invalid(requested, "failed to allocate IP: range is full");
            invalid(review, &errors.into_vec())
        })
    }
}

fn is_allocated(review: &Review<'_>, address: IpAddr) -> bool {
    let key = Key::new("", &address.to_string());
    review.find(&ip_addresses(), &key).is_some()
}

// === ports ===

impl ServiceAddresses {
    fn allocate_ports(&self, review: &mut Review<'_>, old: Option<&Tree>) -> Result<(), Status> {
        let Some(spec) = review.object.as_deref().and_then(|service| service.get("spec")) else {
            return Ok(());
        };
        let (needs_node_ports, needs_health_check) = (has_node_ports(spec), needs_health_check_port(spec));
        if !needs_node_ports && !needs_health_check {
            return Ok(());
        }
        // Read before the Services, so that none of them is newer.
        let version = review.caches().cache(&services()).map(|cache| cache.version());
        let mut used_ports = self.used_ports(review);
        let before = old.map(ports_of).unwrap_or_default();
        let ports: Vec<Tree> = spec.items(fields::PORTS).to_vec();
        let mut allocated: Vec<i64> = Vec::new();
        for (at, port) in ports.iter().enumerate() {
            let requested = review::int_at(port, &["nodePort"]);
            allocated.push(if requested == 0 {
                if needs_node_ports {
                    self.free_port(review, &ports, &allocated, &used_ports)?
                } else {
                    0
                }
            } else {
                if !before.contains(&requested) {
                    self.check_port(review, at, requested, &used_ports)?;
                }
                requested
            });
            used_ports.retain(|port| !allocated.contains(port));
            used_ports.extend(allocated.iter().copied().filter(|port| *port != 0));
        }
        let health = review::int_at(spec, &["healthCheckNodePort"]);
        let health = if needs_health_check && health == 0 {
            self.random_free_port(&used_ports)
        } else {
            None
        };
        let allocated_now = allocated.iter().copied().chain(health);
        let is_new = |port: &i64| *port != 0 && !before.contains(port);
        let new_ports: Vec<i64> = allocated_now.filter(is_new).collect();
        match version {
            Some(version) if self.shares_store && !new_ports.is_empty() => {
                let resource = services();
                review
                    .side_writes
                    .push(SideWrite::NoneNewer { resource, version });
            }
            _ => self.remember_ports(review, new_ports),
        }
        if let Some(service) = review.object.as_deref_mut() {
            let spec = service.child(fields::SPEC);
            for (port, number) in spec.items_mut(fields::PORTS).zip(&allocated) {
                if *number != 0 {
                    port.set(&[fields::NODE_PORT], *number);
                }
            }
            if let Some(health) = health {
                spec.set(&[fields::HEALTH_CHECK_NODE_PORT], health);
            }
        }
        Ok(())
    }

    /// A free node port. Service ports with the same number and different protocols share their node port.
    fn free_port(
        &self,
        review: &Review<'_>,
        ports: &[Tree],
        allocated: &[i64],
        used_ports: &[i64],
    ) -> Result<i64, Status> {
        let at = allocated.len();
        let text = |port: &Tree| port.str_at(&[fields::PROTOCOL]).unwrap_or("TCP").to_owned();
        let number = |port: &Tree| review::int_at(port, &["port"]);
        let shared = (0..at).find(|other| {
            number(&ports[*other]) == number(&ports[at])
                && text(&ports[*other]) != text(&ports[at])
                && (0..at).all(|used| {
                    allocated[used] != allocated[*other] || text(&ports[used]) != text(&ports[at])
                })
        });
        if let Some(other) = shared.filter(|other| allocated[*other] != 0) {
            return Ok(allocated[other]);
        }
        let found = self.random_free_port(used_ports);
        found.ok_or_else(|| {
            let name = review.name;
            Status::internal(format!(
                "failed to allocate a nodePort for Service {name:?}: range is full"
            ))
        })
    }

    fn random_free_port(&self, used_ports: &[i64]) -> Option<i64> {
        let (first, last) = (i64::from(self.ports.0), i64::from(self.ports.1));
        let free = |port: &i64| !used_ports.contains(port);
        let mut random = rand::rng();
        let tried = (0..RANDOM_TRIES)
            .map(|_| random.random_range(first..=last))
            .find(|port| free(port));
        tried.or_else(|| (first..=last).find(|port| free(port)))
    }

    fn check_port(
        &self,
        review: &Review<'_>,
        at: usize,
        requested: i64,
        used_ports: &[i64],
    ) -> Result<(), Status> {
        let (first, last) = self.ports;
        let inside = (i64::from(first)..=i64::from(last)).contains(&requested);
        let why = match (inside, used_ports.contains(&requested)) {
            (true, false) => return Ok(()),
            (true, true) => "provided port is already allocated".to_owned(),
            (false, _) => {
                format!("provided port is not in the valid range. The range of valid ports is {first}-{last}")
            }
        };
        let errors = Errors::default();
        let path = errors
            .at(fields::SPEC)
            .at(fields::PORTS)
            .index(at)
            .at(fields::NODE_PORT);
        path.invalid(requested, &why);
        Err(invalid(review, &errors.into_vec()))
    }

    /// The node ports that other Services have, or were just allocated.
    fn used_ports(&self, review: &Review<'_>) -> Vec<i64> {
        let own = Key::new(review.namespace, review.name);
        let mut used_ports = Vec::new();
        for service in review::list(review, "", "services", "") {
            if *service.key() != own {
                let view = review::view::<Service>(&service);
                used_ports.extend(view.spec.ports.iter().map(|port| port.node_port));
                used_ports.push(view.spec.health_check_node_port);
            }
        }
        let allocated = self.recent_ports.lock();
        let now = review.facts.now;
        let recent = allocated
            .iter()
            .filter(|(_, (to, at))| *to != own && now.duration_since(*at) < RECENT_PORT_TTL);
        used_ports.extend(recent.map(|(port, _)| *port));
        used_ports
    }

    fn remember_ports(&self, review: &Review<'_>, ports: Vec<i64>) {
        if review.dry_run || self.shares_store {
            return;
        }
        let now = review.facts.now;
        let own = Key::new(review.namespace, review.name);
        let mut allocated = self.recent_ports.lock();
        allocated.retain(|_, (_, at)| now.duration_since(*at) < RECENT_PORT_TTL);
        for port in ports {
            allocated.insert(port, (own.clone(), now));
        }
    }
}

fn ports_of(service: &Tree) -> Vec<i64> {
    let ports = service
        .get("spec")
        .map(|spec| spec.items(fields::PORTS))
        .unwrap_or_default();
    ports
        .iter()
        .map(|port| review::int_at(port, &["nodePort"]))
        .collect()
}

fn has_node_ports(spec: &Tree) -> bool {
    match spec.str_at(&[fields::TYPE]).unwrap_or_default() {
        "NodePort" => true,
        "LoadBalancer" => spec
            .get("allocateLoadBalancerNodePorts")
            .and_then(Tree::as_bool)
            .unwrap_or(true),
        _ => false,
    }
}

/// Whether the Service needs a health check node port: an external load balancer with local traffic policy.
fn needs_health_check_port(spec: &Tree) -> bool {
    spec.str_at(&[fields::TYPE]) == Some("LoadBalancer")
        && spec.str_at(&[fields::EXTERNAL_TRAFFIC_POLICY]) == Some("Local")
}
