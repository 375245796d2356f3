//! Devices in use: those of allocated claims, and those of pods that are being bound.

use std::collections::HashSet;
use std::fmt;

use compact_str::CompactString;
use parking_lot::Mutex;

use super::objects::{Claim, ObjectView};
use crate::framework::Rejection;

/// A device by its driver, pool and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct DeviceId {
    pub(super) driver: CompactString,
    pub(super) pool: CompactString,
    pub(super) device: CompactString,
}

/// Allocations that are decided and that the caches do not show yet.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    allocations: Mutex<Vec<PendingAllocation>>,
}

#[derive(Debug)]
struct PendingAllocation {
    /// The uid of the pod.
    pod: CompactString,
    /// The uid of the claim.
    claim: CompactString,
    devices: Vec<DeviceId>,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

impl InFlight {
    /// Whether the claim is being allocated.
    pub(super) fn contains(&self, claim: &str) -> bool {
        self.allocations.lock().iter().any(|one| one.claim == claim)
    }

    /// Adds the allocation of a claim; rejected if another cycle took a device in the meantime.
    pub(super) fn add(&self, pod: &str, claim: &str, devices: Vec<DeviceId>) -> Result<(), Rejection> {
        let mut allocations = self.allocations.lock();
        let is_taken = |device: &DeviceId| allocations.iter().any(|one| one.devices.contains(device));
        if devices.iter().any(is_taken) || allocations.iter().any(|one| one.claim == claim) {
            return Err(Rejection::unschedulable("cannot allocate all claims"));
        }
        allocations.push(PendingAllocation {
            pod: pod.into(),
            claim: claim.into(),
            devices,
        });
        Ok(())
    }

    pub(super) fn remove_pod(&self, pod: &str) {
        self.allocations.lock().retain(|one| one.pod != pod);
    }

    /// All devices in use. An allocation stays here until the cache shows it, or its claim is deleted.
    pub(super) fn devices_in_use(&self, claims: &[ObjectView<Claim>]) -> HashSet<DeviceId> {
        let allocated = claims.iter().flat_map(|claim| claim.view.allocated_devices());
        let exclusive = allocated.filter(|device| !device.admin_access);
        let mut devices: HashSet<DeviceId> = exclusive
            .map(|device| DeviceId {
                driver: device.driver.clone(),
                pool: device.pool.clone(),
                device: device.device.clone(),
            })
            .collect();
        let mut allocations = self.allocations.lock();
        allocations.retain(|one| {
            let claim = claims.iter().find(|claim| claim.object.uid() == one.claim);
            claim.is_some_and(|claim| claim.view.allocation().is_none())
        });
        devices.extend(allocations.iter().flat_map(|one| one.devices.iter().cloned()));
        devices
    }
}
