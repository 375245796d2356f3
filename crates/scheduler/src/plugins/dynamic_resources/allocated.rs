//! Devices in use: those of allocated claims, and those of pods that are being bound.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use compact_str::CompactString;
use parking_lot::Mutex;
use setpoint_api::{Key, ResourceVersion, Stored};
use setpoint_runtime::{Cache, Snapshot};

use super::capacity::{self, ConsumedCapacity};
use super::objects::{self, Claim, ObjectView};
use crate::framework::Rejection;

/// A device by its driver, pool and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct DeviceId {
    pub(super) driver: CompactString,
    pub(super) pool: CompactString,
    pub(super) device: CompactString,
}

/// A device of an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeviceUse {
    pub(super) id: DeviceId,
    /// What it consumes of a device that other claims may have, too; `None` if no other claim may have the device.
    pub(super) share: Option<ConsumedCapacity>,
}

/// The devices in use when a cycle began.
#[derive(Debug, Default)]
pub(super) struct AllocatedState {
    /// Devices that no other claim may have.
    pub(super) exclusive: HashSet<DeviceId>,
    /// What all claims together consume of the devices that they share.
    pub(super) shared: HashMap<DeviceId, ConsumedCapacity>,
}

/// Allocations that are decided and that the caches do not show yet.
///
/// For example, pod p allocates claim c. The entry is added when p is assumed, gets the version that PreBind wrote c as, and is
/// dropped once the cache has c at that version, or at a later one: then the cache shows whether c is allocated.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    allocations: Mutex<Vec<PendingAllocation>>,
}

#[derive(Debug)]
struct PendingAllocation {
    /// The uid of the pod.
    pod: CompactString,
    /// The key and the uid of the claim; `None` until the special claim of the pod is created.
    claim: Option<(Key, CompactString)>,
    /// Whether PreBind created the claim: the cache may not have it yet.
    is_created: bool,
    devices: Vec<DeviceUse>,
    /// The version that the claim was written as; `None` until then.
    written: Option<ResourceVersion>,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

// === impl DeviceUse ===

impl DeviceUse {
    /// The use of a device by an allocated claim; `None` for admin access, which leaves the device to other claims.
    fn of(device: &objects::AllocatedDevice) -> Option<Self> {
        let capacities = device.consumed_capacity.iter();
        let consumed = || capacities.map(|(name, amount)| (name.clone(), amount.0));
        let id = DeviceId {
            driver: device.driver.clone(),
            pool: device.pool.clone(),
            device: device.device.clone(),
        };
        let share = device.share_id.as_ref().map(|_| consumed().collect());
        (!device.admin_access).then_some(Self { id, share })
    }

    /// Whether both cannot be in use at once. What shares consume together is checked by the search.
    fn excludes(&self, other: &Self) -> bool {
        self.id == other.id && (self.share.is_none() || other.share.is_none())
    }
}

// === impl AllocatedState ===

impl AllocatedState {
    pub(super) fn add(&mut self, device: DeviceUse) {
        match device.share {
            None => drop(self.exclusive.insert(device.id)),
            Some(consumed) => capacity::add(self.shared.entry(device.id).or_default(), &consumed),
        }
    }

    /// Whether any claim has the device.
    pub(super) fn is_in_use(&self, id: &DeviceId) -> bool {
        self.exclusive.contains(id) || self.shared.contains_key(id)
    }
}

// === impl InFlight ===

impl InFlight {
    /// Whether the claim is being allocated.
    pub(super) fn contains(&self, claim: &Stored) -> bool {
        let allocations = self.allocations.lock();
        allocations.iter().any(|one| one.is_pending(claim))
    }

    /// Adds the allocation of a claim; rejected if another cycle took a device in the meantime.
    pub(super) fn add(
        &self,
        pod: &str,
        claim: Option<&Stored>,
        devices: Vec<DeviceUse>,
    ) -> Result<(), Rejection> {
        let mut allocations = self.allocations.lock();
        let mut taken = allocations.iter().flat_map(|one| &one.devices);
        if taken.any(|taken| devices.iter().any(|device| device.excludes(taken)))
            || claim.is_some_and(|claim| allocations.iter().any(|one| one.is_pending(claim)))
        {
            return Err(Rejection::unschedulable("cannot allocate all claims"));
        }
        allocations.push(PendingAllocation {
            pod: pod.into(),
            claim: claim.map(|claim| (claim.key().clone(), claim.uid().into())),
            is_created: false,
            devices,
            written: None,
        });
        Ok(())
    }

    /// Notes that the allocation of the claim was written.
    pub(super) fn written(&self, claim: &str, version: ResourceVersion) {
        let mut allocations = self.allocations.lock();
        for one in allocations.iter_mut().filter(|one| one.is_of(claim)) {
            one.written = Some(version);
        }
    }

    /// Notes that the special claim of the pod was created, and its allocation written.
    pub(super) fn created(&self, pod: &str, claim: &Stored) {
        let mut allocations = self.allocations.lock();
        for one in allocations
            .iter_mut()
            .filter(|one| one.pod == pod && one.claim.is_none())
        {
            one.claim = Some((claim.key().clone(), claim.uid().into()));
            one.is_created = true;
            one.written = Some(claim.resource_version());
        }
    }

    /// Removes the allocations of a pod that were not written.
    pub(super) fn remove_pod(&self, pod: &str) {
        let mut allocations = self.allocations.lock();
        allocations.retain(|one| one.pod != pod || one.written.is_some());
    }

    /// All devices in use. The lock is taken before the claims are read: no cycle counts by claims that are older than those
    /// by which an entry was dropped.
    pub(super) fn allocated_state(&self, claims: Option<&Arc<Cache>>) -> AllocatedState {
        let mut state = AllocatedState::default();
        let claims = {
            let mut allocations = self.allocations.lock();
            let claims = claims.map(|claims| claims.snapshot());
            allocations.retain(|one| one.is_unknown_to(claims.as_ref()));
            let devices = allocations.iter().flat_map(|one| &one.devices);
            devices.for_each(|device| state.add(device.clone()));
            claims
        };
        let claims = claims.iter().flat_map(|claims| claims.iter().cloned());
        for claim in claims.filter_map(ObjectView::<Claim>::of) {
            let devices = claim.view.allocated_devices().iter();
            devices
                .filter_map(DeviceUse::of)
                .for_each(|device| state.add(device));
        }
        state
    }
}

impl PendingAllocation {
    fn is_of(&self, claim: &str) -> bool {
        self.claim.as_ref().is_some_and(|(_, uid)| uid == claim)
    }

    /// Whether this version of the claim does not show the allocation yet.
    fn is_pending(&self, claim: &Stored) -> bool {
        let is_shown = |version| claim.resource_version() >= version;
        self.is_of(claim.uid()) && !self.written.is_some_and(is_shown)
    }

    /// Whether the claims of the cache do not show yet whether the claim is allocated.
    fn is_unknown_to(&self, claims: Option<&Snapshot>) -> bool {
        let (Some((key, _)), Some(claims)) = (&self.claim, claims) else {
            return self.claim.is_none();
        };
        match claims.find(key) {
            Some(claim) => self.is_pending(claim),
            None => self.is_created && self.written.is_some_and(|version| version > claims.version),
        }
    }
}
