//! [`Allocator`]: a search with backtracking for devices that satisfy all requests of all claims on one node.

mod devices;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use jiff::Timestamp;
use setpoint_api::{Clock, Key};

use self::devices::{Share, TakeError};
use super::allocated::{AllocatedState, DeviceId};
use super::constraint::ConstraintState;
use super::objects::{Claim, DeviceClass, DeviceRequest, ObjectView, Request};
use super::pools::{NodePool, PoolDevice, gather_pools};
pub(super) use super::result::{AllocatedDevice, Allocation};
use super::selector::Selectors;
use super::slices::ResourceSlice;
use super::taint_rules::TaintRule;

/// The number of devices that a claim may have.
const MAX_DEVICES: usize = 32;

/// A search looks at the clock after this number of choices.
const CHOICES_PER_CHECK: usize = 64;

/// The devices that there are, and those in use.
#[derive(Debug)]
pub(super) struct Allocator {
    pub(super) slices: Vec<ObjectView<ResourceSlice>>,
    pub(super) classes: HashMap<CompactString, ObjectView<DeviceClass>>,
    pub(super) taint_rules: Vec<ObjectView<TaintRule>>,
    pub(super) allocated: AllocatedState,
    pub(super) selectors: Arc<Selectors>,
    /// The limit of the search on one node: the number of combinations of devices is exponential (upstream:
    /// DRASchedulerFilterTimeout). `None` for no limit.
    pub(super) timeout: Option<Duration>,
    pub(super) clock: Arc<dyn Clock>,
}

/// A claim to allocate.
#[derive(Debug, Clone)]
pub(super) struct UnallocatedClaim {
    pub(super) key: Key,
    pub(super) view: Arc<Claim>,
}

/// Why there is no allocation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AllocationError {
    /// The node has no devices that satisfy the claims.
    NotFound,
    /// There are too many combinations of devices to try in time.
    TimedOut,
    /// A claim or a class is wrong.
    Failed(String),
}

/// The search on one node.
struct Search<'a> {
    allocator: &'a Allocator,
    claims: &'a [UnallocatedClaim],
    pools: Vec<NodePool<'a>>,
    /// The devices of complete pools.
    devices: Arc<[(DeviceId, PoolDevice<'a>)]>,
    /// The positions of the devices that each request for all devices selects.
    all: HashMap<RequestId, Arc<[usize]>>,
    /// The number of choices that were tried.
    choices: usize,
    deadline: Option<Timestamp>,
    /// Devices chosen so far that no other request may have.
    taken: HashSet<DeviceId>,
    /// Devices chosen so far that other requests may have, too.
    shares: HashMap<DeviceId, Share>,
    /// The result of selectors by request and device.
    selectable: HashMap<(RequestId, DeviceId), bool>,
    allocations: Vec<Allocation>,
    node: &'a str,
}

/// A request or an alternative, by positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct RequestId {
    claim: usize,
    request: usize,
    alternative: Option<usize>,
}

/// One request or alternative under search.
#[derive(Clone, Copy)]
struct Step<'a> {
    id: RequestId,
    request: &'a Request,
    one: &'a DeviceRequest,
    /// The number of devices chosen for the request.
    chosen: usize,
    /// The first device that may be chosen. Those of one request are chosen in their order: others are no other choice.
    first: usize,
}

type Outcome = Result<bool, AllocationError>;

impl Allocator {
    /// Devices for all claims on the node, in the order of the claims.
    pub(super) fn allocate<'b>(
        &self,
        claims: &[UnallocatedClaim],
        node: &str,
        label: &'b dyn Fn(&str) -> Option<&'b str>,
    ) -> Result<Vec<Allocation>, AllocationError> {
        let pools = gather_pools(&self.slices, &self.allocated, node, label);
        let mut search = Search {
            allocator: self,
            claims,
            devices: devices_of(&pools),
            pools,
            all: HashMap::new(),
            choices: 0,
            deadline: self.timeout.map(|timeout| self.deadline(timeout)),
            taken: HashSet::new(),
            shares: HashMap::new(),
            selectable: HashMap::new(),
            allocations: claims.iter().map(|_| Allocation::default()).collect(),
            node,
        };
        search.check_claims()?;
        let constraints = search.constraints(0);
        match search.request(0, 0, constraints)? {
            true => Ok(search.finish()),
            false => Err(AllocationError::NotFound),
        }
    }

    fn deadline(&self, timeout: Duration) -> Timestamp {
        let deadline = self.clock.now().saturating_add(timeout);
        deadline.unwrap_or(Timestamp::MAX)
    }
}

impl<'a> Search<'a> {
    /// Finds the devices of requests for all devices, and checks that no claim needs more devices than it may have.
    fn check_claims(&mut self) -> Result<(), AllocationError> {
        for (claim, unallocated) in self.claims.iter().enumerate() {
            let mut least = 0;
            for (request, spec) in unallocated.view.spec.devices.requests.iter().enumerate() {
                let mut counts = Vec::new();
                for (alternative, one) in spec.alternatives() {
                    let id = RequestId {
                        claim,
                        request,
                        alternative,
                    };
                    counts.push(match one.is_for_all() {
                        true => self.select_all(id, spec, one)?,
                        false => one.count(),
                    });
                }
                least += counts.into_iter().min().unwrap_or(0);
            }
            if least > MAX_DEVICES {
                return Err(AllocationError::Failed(format!(
                    "claim {}: number of requested devices {least} exceeds the claim limit of {MAX_DEVICES}",
                    unallocated.key
                )));
            }
        }
        Ok(())
    }

    /// Finds the devices of a request for all devices. It fails while a pool is incomplete: it is unknown which devices
    /// there are. Returns their number.
    fn select_all(
        &mut self,
        id: RequestId,
        request: &'a Request,
        one: &'a DeviceRequest,
    ) -> Result<usize, AllocationError> {
        if let Some(pool) = self.pools.iter().find(|pool| pool.is_incomplete) {
            return Err(AllocationError::Failed(format!(
                "claim {}, request {}: asks for all devices, but resource pool {}/{} is currently being updated",
                self.claims[id.claim].key,
                request.own_name(one),
                pool.driver,
                pool.name
            )));
        }
        let step = Step {
            id,
            request,
            one,
            chosen: 0,
            first: 0,
        };
        let mut selected = Vec::new();
        for (position, (device_id, device)) in self.devices.clone().iter().enumerate() {
            if self.is_selectable(step, device_id, *device)?
                && self
                    .consumed_capacity(step, &device.device.name, *device)?
                    .is_some()
            {
                selected.push(position);
            }
        }
        let count = selected.len();
        self.all.insert(id, selected.into());
        Ok(count)
    }

    /// Allocates the request at the position and everything after it.
    fn request(&mut self, claim: usize, request: usize, constraints: ConstraintState) -> Outcome {
        let Some(unallocated) = self.claims.get(claim) else {
            return Ok(true);
        };
        let Some(spec) = unallocated.view.spec.devices.requests.get(request) else {
            let constraints = self.constraints(claim + 1);
            return self.request(claim + 1, 0, constraints);
        };
        for (alternative, one) in spec.alternatives() {
            let step = Step {
                id: RequestId {
                    claim,
                    request,
                    alternative,
                },
                request: spec,
                one,
                chosen: 0,
                first: 0,
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
        let missing = step.one.count() - step.chosen;
        if missing == 0 {
            return self.request(step.id.claim, step.id.request + 1, constraints.clone());
        }
        if self.allocations[step.id.claim].devices.len() + missing > MAX_DEVICES {
            return Ok(false);
        }
        let all = self.devices.clone();
        if all
            .iter()
            .filter(|(id, device)| self.is_free(step, id, *device))
            .count()
            < missing
        {
            return Ok(false);
        }
        for (at, (id, device)) in all.iter().enumerate().skip(step.first) {
            if !self.is_free(step, id, *device) || !self.is_selectable(step, id, *device)? {
                continue;
            }
            let Some(consumed) = self.consumed_capacity(step, id, *device)? else {
                continue;
            };
            let Ok(constraints) = self.take(step, (id, *device), consumed, constraints) else {
                continue;
            };
            self.count_choice()?;
            let next = Step {
                chosen: step.chosen + 1,
                first: at + 1,
                ..step
            };
            if self.next_device(next, &constraints)? {
                return Ok(true);
            }
            self.give_back(step, id, *device);
        }
        Ok(false)
    }

    /// Allocates all selected devices, and everything after them. One that is in use fails the request.
    fn all_devices(&mut self, step: Step<'a>, constraints: &ConstraintState) -> Outcome {
        let selected = self.all.get(&step.id).cloned().unwrap_or_default();
        let count = self.allocations[step.id.claim].devices.len() + selected.len();
        if selected.is_empty() || count > MAX_DEVICES {
            return Ok(false);
        }
        let all = self.devices.clone();
        let mut constraints = constraints.clone();
        let mut taken = 0;
        for position in selected.iter() {
            let (id, device) = &all[*position];
            let consumed = self.consumed_capacity(step, id, *device)?;
            let Some(consumed) = consumed.filter(|_| self.is_free(step, id, *device)) else {
                break;
            };
            match self.take(step, (id, *device), consumed, &constraints) {
                Ok(next) => constraints = next,
                Err(TakeError::Unavailable) => break,
                Err(TakeError::Constraint) => {
                    return Err(AllocationError::Failed(format!(
                        "claim {}, request {}: cannot add device {id} because a claim constraint would not be satisfied",
                        self.claims[step.id.claim].key,
                        step.request.own_name(step.one)
                    )));
                }
            }
            taken += 1;
        }
        self.count_choice()?;
        if taken == selected.len() && self.request(step.id.claim, step.id.request + 1, constraints)? {
            return Ok(true);
        }
        for position in selected[..taken].iter().rev() {
            let (id, device) = &all[*position];
            self.give_back(step, id, *device);
        }
        Ok(false)
    }

    fn constraints(&self, claim: usize) -> ConstraintState {
        let claim = self.claims.get(claim);
        claim.map_or_else(ConstraintState::default, |claim| {
            ConstraintState::new(&claim.view)
        })
    }

    fn count_choice(&mut self) -> Result<(), AllocationError> {
        self.choices += 1;
        let is_check = self.choices.is_multiple_of(CHOICES_PER_CHECK);
        match self.deadline.filter(|_| is_check) {
            Some(deadline) if self.allocator.clock.now() > deadline => Err(AllocationError::TimedOut),
            _ => Ok(()),
        }
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
