//! Gives services their addresses and their ports on nodes, and takes them back.
//!
//! An address is given by an object of its own that is written together with the service, so that no two services can
//! get the same. Ports have no such object: one that was just given out is remembered until it can be seen.

mod owner;

use std::collections::HashMap;
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rand::Rng;
use serde::Deserialize;

use setpoint_api::field::{Errors, FieldError};
use setpoint_api::{GroupResource, Key, Status};
use setpoint_kinds::bootstrap::{IpRange, own};
use setpoint_kinds::core::service::{NO_ADDRESS, allocation};
use setpoint_kinds::meta;
use setpoint_registry::{Companion, Operation, Review};
use setpoint_schema::Tree;

use crate::about;
use crate::chain::{Config, Plugin};

/// How often a random choice is tried before all are tried in order.
const TRIES: usize = 32;
/// How long a port that was given out is remembered before it must be seen on its service.
const REMEMBERED: SignedDuration = SignedDuration::from_secs(10);

/// The rule of what services have.
#[derive(Debug)]
pub(crate) struct ServiceAddresses {
    range: IpRange,
    ports: (u16, u16),
    /// Ports that were given out a moment ago, and to whom.
    given: Mutex<HashMap<i64, (Key, Timestamp)>>,
}

/// The ports that a service has on nodes.
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
            range: config.services,
            ports: config.node_ports,
            given: Mutex::default(),
        }
    }
}

impl Plugin for ServiceAddresses {
    fn name(&self) -> &'static str {
        "ServiceAddresses"
    }

    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let written = matches!(review.operation, Operation::Create | Operation::Update);
        if !written || !about::is(review, "", "services") {
            return Ok(());
        }
        let old = review.old_document();
        let Some(service) = review.object.as_deref_mut() else {
            return Ok(());
        };
        allocation::carry_over(service, old.as_ref());
        let family = if self.range.is_v6() { "IPv6" } else { "IPv4" };
        if let Err(errors) = allocation::settle_families(service, old.as_ref(), &[family]) {
            return Err(invalid(review, &errors));
        }
        self.give_addresses(review, old.as_ref())?;
        self.give_ports(review, old.as_ref())
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !about::is(review, "", "services") {
            return Ok(());
        }
        let old = review.old_document();
        let before = old.as_ref().map(addresses).unwrap_or_default();
        let going = match (review.operation, review.object.as_deref()) {
            (Operation::Delete, _) => !review.old.is_some_and(|old| old.header().has_finalizers),
            (_, Some(service)) => meta::is_deleting(service) && meta::find(service, "finalizers").is_none(),
            _ => false,
        };
        let after = match review.object.as_deref() {
            _ if going => Vec::new(),
            Some(service) => addresses(service),
            None => before.clone(),
        };
        for address in after.iter().filter(|address| !before.contains(address)) {
            let object = own::ip_address_of(address, address.contains(':'), review.namespace, review.name);
            let resource = ip_addresses();
            review.companions.push(Companion::Create { resource, object });
        }
        for address in before.iter().filter(|address| !after.contains(address)) {
            if let Some(old) = review.find(&ip_addresses(), &Key::new("", address)) {
                let resource = ip_addresses();
                review.companions.push(Companion::Delete { resource, old });
            }
        }
        Ok(())
    }
}

fn ip_addresses() -> GroupResource {
    GroupResource::new("networking.k8s.io", "ipaddresses")
}

fn invalid(review: &Review<'_>, errors: &[FieldError]) -> Status {
    Status::invalid(&review.kind.gvk, review.name, errors)
}

/// The addresses that a service has; none if it has a name only.
fn addresses(service: &Tree) -> Vec<String> {
    let spec = service.get("spec");
    if spec.and_then(|spec| spec.str_at(&["type"])) == Some("ExternalName") {
        return Vec::new();
    }
    let listed = spec.map(|spec| spec.items("clusterIPs")).unwrap_or_default();
    let texts = listed.iter().filter_map(Tree::as_str);
    texts
        .filter(|text| !text.is_empty() && *text != NO_ADDRESS)
        .map(str::to_owned)
        .collect()
}

// === addresses ===

impl ServiceAddresses {
    fn give_addresses(&self, review: &mut Review<'_>, old: Option<&Tree>) -> Result<(), Status> {
        let Some(spec) = review.object.as_deref().and_then(|service| service.get("spec")) else {
            return Ok(());
        };
        let headless = spec.str_at(&["clusterIP"]) == Some(NO_ADDRESS);
        if headless || spec.str_at(&["type"]) == Some("ExternalName") {
            return Ok(());
        }
        let before = old.map(addresses).unwrap_or_default();
        let asked: Vec<String> = spec
            .items("clusterIPs")
            .iter()
            .filter_map(Tree::as_str)
            .map(str::to_owned)
            .collect();
        let families = spec.items("ipFamilies").len();
        for address in asked.iter().filter(|address| !before.contains(address)) {
            self.check_address(review, address, &asked)?;
        }
        let mut given = asked.clone();
        while given.len() < families.max(1) {
            given.push(self.free_address(review, &asked)?);
        }
        for address in given.iter().filter(|address| !before.contains(address)) {
            owner::check(review, address, &asked)?;
        }
        if given != asked
            && let Some(service) = review.object.as_deref_mut()
        {
            let list: Vec<Tree> = given.iter().map(|address| Tree::from(address.as_str())).collect();
            service.set(&["spec", "clusterIP"], given[0].as_str());
            service.set(&["spec", "clusterIPs"], list);
        }
        Ok(())
    }

    fn check_address(&self, review: &Review<'_>, text: &str, asked: &[String]) -> Result<(), Status> {
        // What is no address is for the service's own rules to report.
        let Ok(address) = text.parse::<IpAddr>() else {
            return Ok(());
        };
        let why = if !self.range.contains(address) {
            "the provided network does not match the current range".to_owned()
        } else if is_taken(review, address) {
            "provided IP is already allocated".to_owned()
        } else {
            return Ok(());
        };
        let errors = Errors::default();
        let detail = format!("failed to allocate IP {text}: {why}");
        errors.at("spec").at("clusterIPs").invalid(asked, &detail);
        Err(invalid(review, &errors.into_vec()))
    }

    /// Any free address: a random one, so that two servers that choose at once rarely choose the same.
    fn free_address(&self, review: &Review<'_>, asked: &[String]) -> Result<String, Status> {
        // The first and, in the older family, the last address of a range mean something else.
        let last = self.range.len() - if self.range.is_v6() { 0 } else { 1 };
        let free = |at: u128| self.range.nth(at).filter(|address| !is_taken(review, *address));
        let mut random = rand::rng();
        let tried = (0..TRIES).find_map(|_| free(random.random_range(1..last.max(2))));
        let found = tried.or_else(|| (1..last.min(1 << 20)).find_map(free));
        found.map(|address| address.to_string()).ok_or_else(|| {
            let errors = Errors::default();
            let place = errors.at("spec").at("clusterIPs");
            place.invalid(asked, "failed to allocate IP: range is full");
            invalid(review, &errors.into_vec())
        })
    }
}

fn is_taken(review: &Review<'_>, address: IpAddr) -> bool {
    let key = Key::new("", &address.to_string());
    review.find(&ip_addresses(), &key).is_some()
}

// === ports ===

impl ServiceAddresses {
    fn give_ports(&self, review: &mut Review<'_>, old: Option<&Tree>) -> Result<(), Status> {
        let Some(spec) = review.object.as_deref().and_then(|service| service.get("spec")) else {
            return Ok(());
        };
        let (reachable, checked) = (has_ports(spec), is_checked(spec));
        if !reachable && !checked {
            return Ok(());
        }
        let mut taken = self.taken(review);
        let before = old.map(ports_of).unwrap_or_default();
        let ports: Vec<Tree> = spec.items("ports").to_vec();
        let mut given: Vec<i64> = Vec::new();
        for (at, port) in ports.iter().enumerate() {
            let asked = about::int(port, &["nodePort"]);
            given.push(if asked == 0 {
                if reachable {
                    self.free_port(review, &ports, &given, &taken)?
                } else {
                    0
                }
            } else {
                if !before.contains(&asked) {
                    self.check_port(review, at, asked, &taken)?;
                }
                asked
            });
            taken.retain(|port| !given.contains(port));
            taken.extend(given.iter().copied().filter(|port| *port != 0));
        }
        let health = about::int(spec, &["healthCheckNodePort"]);
        let health = if checked && health == 0 {
            self.choose(&taken)
        } else {
            None
        };
        self.remember(review, given.iter().copied().chain(health));
        if let Some(service) = review.object.as_deref_mut() {
            let spec = service.child("spec");
            for (port, number) in spec.items_mut("ports").zip(&given) {
                if *number != 0 {
                    port.set(&["nodePort"], *number);
                }
            }
            if let Some(health) = health {
                spec.set(&["healthCheckNodePort"], health);
            }
        }
        Ok(())
    }

    /// Ports of one number and several protocols share their port on nodes.
    fn free_port(
        &self,
        review: &Review<'_>,
        ports: &[Tree],
        given: &[i64],
        taken: &[i64],
    ) -> Result<i64, Status> {
        let at = given.len();
        let text = |port: &Tree| port.str_at(&["protocol"]).unwrap_or("TCP").to_owned();
        let number = |port: &Tree| about::int(port, &["port"]);
        let shared = (0..at).find(|other| {
            number(&ports[*other]) == number(&ports[at])
                && text(&ports[*other]) != text(&ports[at])
                && (0..at).all(|used| given[used] != given[*other] || text(&ports[used]) != text(&ports[at]))
        });
        if let Some(other) = shared.filter(|other| given[*other] != 0) {
            return Ok(given[other]);
        }
        let found = self.choose(taken);
        found.ok_or_else(|| {
            let name = review.name;
            Status::internal(format!(
                "failed to allocate a nodePort for Service {name:?}: range is full"
            ))
        })
    }

    fn choose(&self, taken: &[i64]) -> Option<i64> {
        let (first, last) = (i64::from(self.ports.0), i64::from(self.ports.1));
        let free = |port: &i64| !taken.contains(port);
        let mut random = rand::rng();
        let tried = (0..TRIES)
            .map(|_| random.random_range(first..=last))
            .find(|port| free(port));
        tried.or_else(|| (first..=last).find(|port| free(port)))
    }

    fn check_port(&self, review: &Review<'_>, at: usize, asked: i64, taken: &[i64]) -> Result<(), Status> {
        let (first, last) = self.ports;
        let inside = (i64::from(first)..=i64::from(last)).contains(&asked);
        let why = match (inside, taken.contains(&asked)) {
            (true, false) => return Ok(()),
            (true, true) => "provided port is already allocated".to_owned(),
            (false, _) => {
                format!("provided port is not in the valid range. The range of valid ports is {first}-{last}")
            }
        };
        let errors = Errors::default();
        let place = errors.at("spec").at("ports").index(at).at("nodePort");
        place.invalid(asked, &why);
        Err(invalid(review, &errors.into_vec()))
    }

    /// The ports that other services have, or are about to have.
    fn taken(&self, review: &Review<'_>) -> Vec<i64> {
        let own = Key::new(review.namespace, review.name);
        let mut taken = Vec::new();
        for service in about::all(review, "", "services", "") {
            if *service.key() != own {
                let view = about::view::<Service>(&service);
                taken.extend(view.spec.ports.iter().map(|port| port.node_port));
                taken.push(view.spec.health_check_node_port);
            }
        }
        let given = self.given.lock();
        let now = review.facts.now;
        let recent = given
            .iter()
            .filter(|(_, (to, at))| *to != own && now.duration_since(*at) < REMEMBERED);
        taken.extend(recent.map(|(port, _)| *port));
        taken
    }

    fn remember(&self, review: &Review<'_>, ports: impl Iterator<Item = i64>) {
        if review.dry_run {
            return;
        }
        let now = review.facts.now;
        let own = Key::new(review.namespace, review.name);
        let mut given = self.given.lock();
        given.retain(|_, (_, at)| now.duration_since(*at) < REMEMBERED);
        for port in ports.filter(|port| *port != 0) {
            given.insert(port, (own.clone(), now));
        }
    }
}

fn ports_of(service: &Tree) -> Vec<i64> {
    let ports = service
        .get("spec")
        .map(|spec| spec.items("ports"))
        .unwrap_or_default();
    ports.iter().map(|port| about::int(port, &["nodePort"])).collect()
}

fn has_ports(spec: &Tree) -> bool {
    match spec.str_at(&["type"]).unwrap_or_default() {
        "NodePort" => true,
        "LoadBalancer" => spec
            .get("allocateLoadBalancerNodePorts")
            .and_then(Tree::as_bool)
            .unwrap_or(true),
        _ => false,
    }
}

/// Whether a balancer outside asks each node whether it has one of the pods.
fn is_checked(spec: &Tree) -> bool {
    spec.str_at(&["type"]) == Some("LoadBalancer") && spec.str_at(&["externalTrafficPolicy"]) == Some("Local")
}
