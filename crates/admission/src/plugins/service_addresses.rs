//! Allocation and release of cluster IPs and node ports of Services.
//!
//! A cluster IP is allocated by an IPAddress object that is written together with the Service, so that no two Services can
//! get the same. Node ports have no such object: see [`node_ports`].

mod node_ports;
mod owner;
mod port_bitmap;
mod stored_range;

use std::net::IpAddr;

use rand::Rng;

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
use node_ports::NodePorts;

/// How many random candidates are tried before all are tried in order.
const RANDOM_TRIES: usize = 32;

/// Allocates the cluster IPs and node ports of Services.
#[derive(Debug)]
pub(crate) struct ServiceAddresses {
    range: Cidr,
    ports: NodePorts,
}

impl ServiceAddresses {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            range: config.service_cidr,
            ports: NodePorts::new(config),
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
        self.ports.allocate(review, old.as_ref())
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !review::is_resource(review, "", "services") {
            return Ok(());
        }
        let old = review.decode_old();
        let is_deleted = match (review.operation, review.object.as_deref()) {
            (Operation::Delete, _) => !review.old.is_some_and(|old| old.header().has_finalizers),
            (_, Some(service)) => meta::is_deleting(service) && meta::find(service, "finalizers").is_none(),
            _ => false,
        };
        let new = match review.object.as_deref() {
            _ if is_deleted => None,
            Some(service) => Some(service),
            None => old.as_ref(),
        };
        let of = |service: Option<&Tree>| service.map(addresses).unwrap_or_default();
        let (before, after) = (of(old.as_ref()), of(new));
        let (ports_before, ports_after) = (node_ports::of(old.as_ref()), node_ports::of(new));
        write_addresses(review, &before, &after);
        self.ports.write(review, &ports_before, &ports_after)
    }
}

/// Creates and deletes the IPAddress objects of a Service.
fn write_addresses(review: &mut Review<'_>, before: &[String], after: &[String]) {
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
