//! Allocation and release of node ports.
//!
//! One server remembers a port that it has just allocated until the cache has its Service. Servers that share the store keep
//! the allocated ports in a bitmap there: see [`super::stored_range`].

use std::collections::{BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rand::Rng;
use serde::Deserialize;

use setpoint_api::field::Errors;
use setpoint_api::{Key, Status};
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::{Tree, fields};

use super::stored_range::StoredRange;
use super::{RANDOM_TRIES, invalid};
use crate::chain::Config;
use crate::review;

/// How long an allocated port is remembered; by then the cache has its Service.
const RECENT_PORT_TTL: SignedDuration = SignedDuration::from_secs(10);

/// Allocates node ports from a range.
#[derive(Debug)]
pub(super) struct NodePorts {
    range: (u16, u16),
    /// Recently allocated ports, with the Service and the time; none if other servers share the store.
    recent: Mutex<HashMap<i64, (Key, Timestamp)>>,
    /// The bitmap, if other servers share the store.
    stored: Option<StoredRange>,
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

/// A Service whose ports are allocated.
#[derive(Debug)]
struct Allocation<'a> {
    ports: &'a [Tree],
    /// Whether ports without a node port get one.
    fills: bool,
    /// The node ports that the stored Service has.
    before: &'a BTreeSet<i64>,
    /// Those that others have, and those that were allocated so far.
    used: BTreeSet<i64>,
    /// The node port of each port so far; zero for none.
    allocated: Vec<i64>,
}

/// The node ports of a Service; none if there is none.
pub(super) fn of(service: Option<&Tree>) -> BTreeSet<i64> {
    let Some(spec) = service.and_then(|service| service.get("spec")) else {
        return BTreeSet::new();
    };
    let ports = spec.items(fields::PORTS).iter().map(node_port);
    let health = health_check_port(spec);
    ports.chain([health]).filter(|port| *port != 0).collect()
}

impl NodePorts {
    pub(super) fn new(config: &Config) -> Self {
        let range = config.node_port_range;
        Self {
            range,
            recent: Mutex::default(),
            stored: config.shares_store.then(|| StoredRange::new(range)),
        }
    }

    /// Allocates the node ports that a new or updated Service lacks, and checks those that it chooses itself.
    pub(super) fn allocate(&self, review: &mut Review<'_>, old: Option<&Tree>) -> Result<(), Status> {
        let Some(spec) = review.object.as_deref().and_then(|service| service.get("spec")) else {
            return Ok(());
        };
        if !may_have_node_ports(spec) {
            return Ok(());
        }
        let (needs_health_check, health) = (needs_health_check_port(spec), health_check_port(spec));
        let (ports, before) = (spec.items(fields::PORTS).to_vec(), of(old));
        let stored = match &self.stored {
            Some(range) => Some(range.read(review, &before, self.other_ports(review))?),
            None => None,
        };
        let mut allocation = Allocation {
            ports: &ports,
            fills: needs_node_ports(spec),
            before: &before,
            used: match &stored {
                Some(stored) => stored.used(),
                None => self.other_ports(review),
            },
            allocated: Vec::new(),
        };
        for _ in &ports {
            self.allocate_next(review, &mut allocation)?;
        }
        let health = match needs_health_check {
            true if health == 0 => self.random_free_port(&allocation.used),
            true if !before.contains(&health) => Some(self.check_health_port(health, &allocation.used)?),
            _ => None,
        };
        let allocated = allocation.allocated;
        let chosen = allocated.iter().copied().chain(health);
        let new: Vec<i64> = chosen
            .filter(|port| *port != 0 && !before.contains(port))
            .collect();
        match (&self.stored, &stored) {
            _ if new.is_empty() => {}
            (Some(range), Some(read)) => range.compare(review, read),
            _ => self.remember(review, new),
        }
        set_ports(review, &allocated, health);
        Ok(())
    }

    /// Writes the bitmap together with a Service that has these ports before and after.
    pub(super) fn write(
        &self,
        review: &mut Review<'_>,
        before: &BTreeSet<i64>,
        after: &BTreeSet<i64>,
    ) -> Result<(), Status> {
        if let Some(range) = &self.stored
            && before != after
        {
            let allocated = range.read(review, before, self.other_ports(review))?;
            range.replace(review, allocated, (before, after));
        }
        Ok(())
    }

    /// Allocates the node port of the next port.
    fn allocate_next(&self, review: &Review<'_>, allocation: &mut Allocation<'_>) -> Result<(), Status> {
        let at = allocation.allocated.len();
        let requested = node_port(&allocation.ports[at]);
        let port = match requested {
            0 if allocation.fills => self.free_port(review, allocation)?,
            0 => 0,
            requested if allocation.before.contains(&requested) => requested,
            requested if allocation.has_shared(review.operation, requested) => requested,
            requested => self.check_port(review, (at, requested), &allocation.used)?,
        };
        if port != 0 {
            allocation.used.insert(port);
        }
        allocation.allocated.push(port);
        Ok(())
    }

    /// A free node port. Service ports with the same number and different protocols share their node port.
    fn free_port(&self, review: &Review<'_>, allocation: &Allocation<'_>) -> Result<i64, Status> {
        let shared = allocation.find_shared();
        let found = shared.or_else(|| self.random_free_port(&allocation.used));
        found.ok_or_else(|| {
            let name = review.name;
            Status::internal(format!(
                "failed to allocate a nodePort for Service {name:?}: range is full"
            ))
        })
    }

    fn random_free_port(&self, used: &BTreeSet<i64>) -> Option<i64> {
        let (first, last) = (i64::from(self.range.0), i64::from(self.range.1));
        let free = |port: &i64| !used.contains(port);
        let mut random = rand::rng();
        let tried = (0..RANDOM_TRIES)
            .map(|_| random.random_range(first..=last))
            .find(|port| free(port));
        tried.or_else(|| (first..=last).find(|port| free(port)))
    }

    /// Why a port cannot be allocated, if it cannot.
    fn rejection(&self, port: i64, used: &BTreeSet<i64>) -> Option<String> {
        let (first, last) = self.range;
        if !(i64::from(first)..=i64::from(last)).contains(&port) {
            return Some(format!(
                "provided port is not in the valid range. The range of valid ports is {first}-{last}"
            ));
        }
        used.contains(&port)
            .then(|| "provided port is already allocated".to_owned())
    }

    fn check_port(
        &self,
        review: &Review<'_>,
        (at, requested): (usize, i64),
        used: &BTreeSet<i64>,
    ) -> Result<i64, Status> {
        let Some(why) = self.rejection(requested, used) else {
            return Ok(requested);
        };
        let errors = Errors::default();
        let ports = errors.at(fields::SPEC).at(fields::PORTS);
        ports.index(at).at(fields::NODE_PORT).invalid(requested, &why);
        Err(invalid(review, &errors.into_vec()))
    }

    /// Kubernetes returns this error without a reason.
    fn check_health_port(&self, requested: i64, used: &BTreeSet<i64>) -> Result<i64, Status> {
        match self.rejection(requested, used) {
            None => Ok(requested),
            Some(why) => Err(Status {
                status: "Failure".to_owned(),
                message: format!("failed to allocate requested HealthCheck NodePort {requested}: {why}"),
                code: 500,
                ..Status::default()
            }),
        }
    }

    /// The node ports that other Services have, or were just allocated.
    fn other_ports(&self, review: &Review<'_>) -> BTreeSet<i64> {
        let own = Key::new(review.namespace, review.name);
        let mut used = BTreeSet::new();
        for service in review::list(review, "", "services", "") {
            if *service.key() != own {
                let view = review::view::<Service>(&service);
                used.extend(view.spec.ports.iter().map(|port| port.node_port));
                used.insert(view.spec.health_check_node_port);
            }
        }
        let now = review.facts.now;
        let recent = self.recent.lock();
        let recent = recent
            .iter()
            .filter(|(_, (to, at))| *to != own && now.duration_since(*at) < RECENT_PORT_TTL);
        used.extend(recent.map(|(port, _)| *port));
        used.remove(&0);
        used
    }

    fn remember(&self, review: &Review<'_>, ports: Vec<i64>) {
        if review.dry_run {
            return;
        }
        let now = review.facts.now;
        let own = Key::new(review.namespace, review.name);
        let mut recent = self.recent.lock();
        recent.retain(|_, (_, at)| now.duration_since(*at) < RECENT_PORT_TTL);
        for port in ports {
            recent.insert(port, (own.clone(), now));
        }
    }
}

impl Allocation<'_> {
    /// The node port of an earlier port with the same number, which the next port can share.
    fn find_shared(&self) -> Option<i64> {
        let at = self.allocated.len();
        let own = protocol(&self.ports[at]);
        let is_taken = |port: i64| {
            (0..at).any(|used| self.allocated[used] == port && protocol(&self.ports[used]) == own)
        };
        let mut earlier = self
            .with_same_number()
            .filter(|other| protocol(&self.ports[*other]) != own);
        let found = earlier.find(|other| !is_taken(self.allocated[*other]))?;
        Some(self.allocated[found]).filter(|port| *port != 0)
    }

    /// Whether an earlier port has the node port that the next one requests. In a create, only one with the same number may.
    fn has_shared(&self, operation: Operation, requested: i64) -> bool {
        match operation {
            Operation::Update => self.allocated.contains(&requested),
            _ => self
                .with_same_number()
                .any(|other| self.allocated[other] == requested),
        }
    }

    /// The earlier ports with the same number as the next one.
    fn with_same_number(&self) -> impl Iterator<Item = usize> {
        let number = |at: usize| review::int_at(&self.ports[at], &["port"]);
        let at = self.allocated.len();
        (0..at).filter(move |other| number(*other) == number(at))
    }
}

fn set_ports(review: &mut Review<'_>, allocated: &[i64], health: Option<i64>) {
    let Some(service) = review.object.as_deref_mut() else {
        return;
    };
    let spec = service.child(fields::SPEC);
    for (port, number) in spec.items_mut(fields::PORTS).zip(allocated) {
        if *number != 0 {
            port.set(&[fields::NODE_PORT], *number);
        }
    }
    if let Some(health) = health {
        spec.set(&[fields::HEALTH_CHECK_NODE_PORT], health);
    }
}

fn node_port(port: &Tree) -> i64 {
    review::int_at(port, &[fields::NODE_PORT])
}

fn health_check_port(spec: &Tree) -> i64 {
    review::int_at(spec, &[fields::HEALTH_CHECK_NODE_PORT])
}

fn protocol(port: &Tree) -> &str {
    port.str_at(&[fields::PROTOCOL]).unwrap_or("TCP")
}

fn may_have_node_ports(spec: &Tree) -> bool {
    matches!(spec.str_at(&[fields::TYPE]), Some("NodePort" | "LoadBalancer"))
}

/// Whether ports without a node port get one.
fn needs_node_ports(spec: &Tree) -> bool {
    spec.str_at(&[fields::TYPE]) == Some("NodePort")
        || spec
            .get("allocateLoadBalancerNodePorts")
            .and_then(Tree::as_bool)
            .unwrap_or(true)
}

/// Whether the Service needs a health check node port: an external load balancer with local traffic policy.
fn needs_health_check_port(spec: &Tree) -> bool {
    spec.str_at(&[fields::TYPE]) == Some("LoadBalancer")
        && spec.str_at(&[fields::EXTERNAL_TRAFFIC_POLICY]) == Some("Local")
}
