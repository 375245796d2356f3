//! [`Allocator`]: a search with backtracking for devices that satisfy all requests of all claims on one node.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use compact_str::CompactString;
use setpoint_api::quantity::Quantity;

use super::allocated::DeviceId;
use super::constraint::ConstraintState;
use super::objects::{Claim, DeviceClass, DeviceRequest, DeviceSelector, ObjectView, Request};
use super::pools::{NodePool, PoolDevice, gather_pools};
pub(super) use super::result::{AllocatedDevice, Allocation};
use super::selector::{SelectorError, Selectors};
use super::slices::ResourceSlice;
use super::taint_rules::{TaintRule, is_tainted_by_rule};

/// The number of devices that a claim may have.
const MAX_DEVICES: usize = 32;

/// The number of choices that a search on one node may try (upstream: DRASchedulerFilterTimeout, which limits its time). The
/// number of combinations of devices is exponential, and other pods wait meanwhile.
const MAX_CHOICES: usize = 1 << 16;

/// The claims to allocate, and the devices that there are.
#[derive(Debug)]
pub(super) struct Allocator {
    pub(super) claims: Vec<ObjectView<Claim>>,
    pub(super) slices: Vec<ObjectView<ResourceSlice>>,
    pub(super) classes: HashMap<CompactString, ObjectView<DeviceClass>>,
    pub(super) taint_rules: Vec<ObjectView<TaintRule>>,
    pub(super) in_use: HashSet<DeviceId>,
    pub(super) selectors: Arc<Selectors>,
}

/// Why there is no allocation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AllocationError {
    /// The node has no devices that satisfy the claims.
    NotFound,
    /// There are too many combinations of devices to try.
    TooComplex,
    /// A claim or a class is wrong.
    Failed(String),
}

/// The search on one node.
struct Search<'a> {
    allocator: &'a Allocator,
    pools: Vec<NodePool<'a>>,
    /// The devices of complete pools.
    devices: Arc<[(DeviceId, PoolDevice<'a>)]>,
    /// The number of choices that were tried.
    choices: usize,
    /// Devices chosen so far that no other request may have.
    taken: HashSet<DeviceId>,
    /// The result of selectors by claim, request, alternative and device.
    selectable: HashMap<(usize, usize, Option<usize>, DeviceId), bool>,
    allocations: Vec<Allocation>,
    node: &'a str,
}

/// The position of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    claim: usize,
    request: usize,
    /// The number of devices chosen for the request.
    devices: usize,
}

/// One request or alternative under search.
#[derive(Clone, Copy)]
struct Step<'a> {
    position: Position,
    /// The first device that may be chosen. Those of one request are chosen in their order: others are no other choice.
    first: usize,
    alternative: Option<usize>,
    request: &'a Request,
    one: &'a DeviceRequest,
}

type Outcome = Result<bool, AllocationError>;

impl Allocator {
    /// Devices for all claims on the node, in the order of the claims.
    pub(super) fn allocate<'b>(
        &self,
        node: &str,
        label: &'b dyn Fn(&str) -> Option<&'b str>,
    ) -> Result<Vec<Allocation>, AllocationError> {
        let pools = gather_pools(&self.slices, &self.in_use, node, label);
        let mut search = Search {
            allocator: self,
            devices: devices_of(&pools),
            pools,
            choices: 0,
            taken: HashSet::new(),
            selectable: HashMap::new(),
            allocations: self.claims.iter().map(|_| Allocation::default()).collect(),
            node,
        };
        search.check_requests()?;
        let start = Position {
            claim: 0,
            request: 0,
            devices: 0,
        };
        let constraints = self.constraints(0);
        match search.request(start, constraints)? {
            true => Ok(search.finish()),
            false => Err(AllocationError::NotFound),
        }
    }

    fn constraints(&self, claim: usize) -> ConstraintState {
        let claim = self.claims.get(claim);
        claim.map_or_else(ConstraintState::default, |claim| {
            ConstraintState::new(&claim.view)
        })
    }
}

impl<'a> Search<'a> {
    /// A request for all devices fails while a pool is incomplete: it is unknown which devices there are.
    fn check_requests(&self) -> Result<(), AllocationError> {
        for claim in &self.allocator.claims {
            for request in &claim.view.spec.devices.requests {
                let is_for_all = request.alternatives().any(|(_, one)| one.is_for_all());
                let incomplete = self.pools.iter().find(|pool| pool.is_incomplete);
                if let Some(pool) = incomplete.filter(|_| is_for_all) {
                    return Err(AllocationError::Failed(format!(
                        "claim {}, request {}: asks for all devices, but resource pool {}/{} is currently being updated",
                        claim.object.key(),
                        request.name,
                        pool.driver,
                        pool.name
                    )));
                }
            }
        }
        Ok(())
    }

    /// Allocates the request at the position and everything after it.
    fn request(&mut self, position: Position, constraints: ConstraintState) -> Outcome {
        let allocator = self.allocator;
        let Some(claim) = allocator.claims.get(position.claim) else {
            return Ok(true);
        };
        let Some(request) = claim.view.spec.devices.requests.get(position.request) else {
            let next = Position {
                claim: position.claim + 1,
                request: 0,
                devices: 0,
            };
            return self.request(next, allocator.constraints(next.claim));
        };
        for (alternative, one) in request.alternatives() {
            let step = Step {
                position,
                first: 0,
                alternative,
                request,
                one,
            };
            let found = match one.is_for_all() {
                true => self.all_devices(step, &constraints)?,
                false => self.next_device(step, &constraints)?,
            };
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Allocates one more device of the request, and everything after it.
    fn next_device(&mut self, step: Step<'a>, constraints: &ConstraintState) -> Outcome {
        let Position {
            claim,
            request,
            devices,
        } = step.position;
        if devices == step.one.count() {
            let next = Position {
                claim,
                request: request + 1,
                devices: 0,
            };
            return self.request(next, constraints.clone());
        }
        if self.allocations[claim].devices.len() + step.one.count() - devices > MAX_DEVICES {
            return Ok(false);
        }
        let all = self.devices.clone();
        if all.iter().filter(|(id, _)| self.is_free(step, id)).count() < step.one.count() - devices {
            return Ok(false);
        }
        for (at, (id, device)) in all.iter().enumerate().skip(step.first) {
            if !self.is_free(step, id) || !self.is_selectable(step, id, *device)? {
                continue;
            }
            let Some(constraints) = self.take(step, id, *device, constraints) else {
                continue;
            };
            self.count_choice()?;
            let mut next = step;
            next.position.devices += 1;
            next.first = at + 1;
            if self.next_device(next, &constraints)? {
                return Ok(true);
            }
            self.give_back(step, id, *device);
        }
        Ok(false)
    }

    /// Allocates all selectable devices, and everything after them. One that is in use or excluded fails the request.
    fn all_devices(&mut self, step: Step<'a>, constraints: &ConstraintState) -> Outcome {
        let mut selected = Vec::new();
        for (id, device) in self.devices.clone().iter() {
            if self.is_selectable(step, id, *device)? {
                selected.push((id.clone(), *device));
            }
        }
        if selected.is_empty() || selected.len() > MAX_DEVICES {
            return Ok(false);
        }
        let mut constraints = constraints.clone();
        let mut taken: Vec<(DeviceId, PoolDevice<'a>)> = Vec::new();
        let mut is_complete = true;
        for (id, device) in &selected {
            let next = match self.is_free(step, id) {
                true => self.take(step, id, *device, &constraints),
                false => None,
            };
            let Some(next) = next else {
                is_complete = false;
                break;
            };
            constraints = next;
            taken.push((id.clone(), *device));
        }
        let next = Position {
            request: step.position.request + 1,
            devices: 0,
            ..step.position
        };
        if is_complete && self.request(next, constraints)? {
            return Ok(true);
        }
        for (id, device) in taken.iter().rev() {
            self.give_back(step, id, *device);
        }
        Ok(false)
    }

    fn count_choice(&mut self) -> Result<(), AllocationError> {
        self.choices += 1;
        match self.choices > MAX_CHOICES {
            true => Err(AllocationError::TooComplex),
            false => Ok(()),
        }
    }

    fn is_free(&self, step: Step<'_>, id: &DeviceId) -> bool {
        match step.one.admin_access {
            true => {
                let own = &self.allocations[step.position.claim].devices;
                !own.iter().any(|device| device.id == *id)
            }
            false => !self.allocator.in_use.contains(id) && !self.taken.contains(id),
        }
    }

    /// Chooses the device, if taints and constraints allow it.
    fn take(
        &mut self,
        step: Step<'a>,
        id: &DeviceId,
        device: PoolDevice<'a>,
        constraints: &ConstraintState,
    ) -> Option<ConstraintState> {
        if device.device.allow_multiple_allocations || device.device.is_tainted_for(step.one) {
            return None;
        }
        if is_tainted_by_rule(&self.allocator.taint_rules, id, step.one) || !self.has_counters(id, device) {
            return None;
        }
        let claim = &self.allocator.claims[step.position.claim].view;
        let next = constraints.with(claim, (step.request, step.one), (&id.driver, device.device))?;
        self.consume_counters(id, device, |left, amount| left - amount);
        if !step.one.admin_access {
            self.taken.insert(id.clone());
        }
        self.allocations[step.position.claim]
            .devices
            .push(AllocatedDevice {
                id: id.clone(),
                request: step.request.full_name(step.one),
                class: step.one.device_class_name.clone(),
                alternative: step.alternative,
                admin_access: step.one.admin_access,
                tolerations: step.one.tolerations.clone(),
                node_name: device.nodes.node_name.map(|_| self.node.into()),
                node_selector: device.nodes.node_selector.cloned(),
            });
        Some(next)
    }

    /// Whether the pool has enough of the counters that the device consumes. As upstream, none of its counters may be
    /// exceeded already.
    fn has_counters(&self, id: &DeviceId, device: PoolDevice<'a>) -> bool {
        let mut consumed = device.device.consumed_counters().peekable();
        if consumed.peek().is_none() {
            return true;
        }
        let Some(pool) = self.pools.iter().find(|pool| pool.has(id)) else {
            return false;
        };
        consumed.all(|(counter, amount)| pool.counters.get(&counter).is_some_and(|left| *left >= amount))
            && pool.counters.values().all(|left| !left.is_negative())
    }

    /// Changes the counters of the pool by what the device consumes.
    fn consume_counters(
        &mut self,
        id: &DeviceId,
        device: PoolDevice<'a>,
        change: impl Fn(Quantity, Quantity) -> Quantity,
    ) {
        if device.device.consumes_counters.is_empty() {
            return;
        }
        let Some(pool) = self.pools.iter_mut().find(|pool| pool.has(id)) else {
            return;
        };
        for (counter, amount) in device.device.consumed_counters() {
            if let Some(left) = pool.counters.get_mut(&counter) {
                *left = change(*left, amount);
            }
        }
    }

    fn give_back(&mut self, step: Step<'_>, id: &DeviceId, device: PoolDevice<'a>) {
        self.consume_counters(id, device, |left, amount| left + amount);
        if !step.one.admin_access {
            self.taken.remove(id);
        }
        self.allocations[step.position.claim].devices.pop();
    }

    /// Whether the selectors of the class and of the request select the device.
    fn is_selectable(&mut self, step: Step<'_>, id: &DeviceId, device: PoolDevice<'_>) -> Outcome {
        let position = step.position;
        let key = (position.claim, position.request, step.alternative, id.clone());
        if let Some(known) = self.selectable.get(&key) {
            return Ok(*known);
        }
        let class = self.allocator.classes.get(&step.one.device_class_name);
        let class_selectors = class.map_or(&[][..], |class| &class.view.spec.selectors);
        let class_name = format!("class {}", step.one.device_class_name);
        let claim_name = format!("claim {}", self.allocator.claims[position.claim].object.key());
        let is_selected = self.matches_all(&class_name, class_selectors, id, device)?
            && self.matches_all(&claim_name, &step.one.selectors, id, device)?;
        self.selectable.insert(key, is_selected);
        Ok(is_selected)
    }

    fn matches_all(
        &self,
        owner: &str,
        selectors: &[DeviceSelector],
        id: &DeviceId,
        device: PoolDevice<'_>,
    ) -> Outcome {
        for (number, selector) in selectors.iter().enumerate() {
            let expression = &selector.cel.expression;
            let matches = self
                .allocator
                .selectors
                .matches(expression, &id.driver, device.device);
            let matches = matches.map_err(|error| {
                AllocationError::Failed(match error {
                    SelectorError::Compile(message) => {
                        format!("{owner}: selector #{number}: CEL compile error: {message}")
                    }
                    SelectorError::Evaluate(message) => {
                        format!("{owner}: selector #{number} on device {id}: CEL runtime error: {message}")
                    }
                })
            })?;
            if !matches {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The allocations with the configuration of their classes.
    fn finish(mut self) -> Vec<Allocation> {
        for allocation in &mut self.allocations {
            for device in &allocation.devices {
                let class = self.allocator.classes.get(&device.class);
                let config = class.map(|class| class.view.spec.config.clone());
                allocation
                    .class_config
                    .entry(device.class.clone())
                    .or_insert_with(|| config.unwrap_or_default());
            }
        }
        self.allocations
    }
}

/// The devices of complete pools.
fn devices_of<'a>(pools: &[NodePool<'a>]) -> Arc<[(DeviceId, PoolDevice<'a>)]> {
    let pools = pools.iter().filter(|pool| !pool.is_incomplete);
    let devices = pools.flat_map(|pool| {
        pool.devices.iter().map(|device| {
            let id = DeviceId {
                driver: pool.driver.clone(),
                pool: pool.name.clone(),
                device: device.device.name.clone(),
            };
            (id, *device)
        })
    });
    devices.collect()
}
