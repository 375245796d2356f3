//! Devices in use: those of allocated claims, and those of pods that are being bound.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use compact_str::CompactString;
use parking_lot::Mutex;
use setpoint_api::{Key, ResourceVersion, Stored};
use setpoint_runtime::Cache;

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
    /// The key and the uid of the claim.
    claim: (Key, CompactString),
    devices: Vec<DeviceId>,
    /// The version that the claim was written as; `None` until then.
    written: Option<ResourceVersion>,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

impl InFlight {
    /// Whether the claim is being allocated.
    pub(super) fn contains(&self, claim: &Stored) -> bool {
        let allocations = self.allocations.lock();
        allocations.iter().any(|one| one.is_pending(claim))
    }

    /// Adds the allocation of a claim; rejected if another cycle took a device in the meantime.
    pub(super) fn add(&self, pod: &str, claim: &Stored, devices: Vec<DeviceId>) -> Result<(), Rejection> {
        let mut allocations = self.allocations.lock();
        let is_taken = |device: &DeviceId| allocations.iter().any(|one| one.devices.contains(device));
        if devices.iter().any(is_taken) || allocations.iter().any(|one| one.is_pending(claim)) {
            return Err(Rejection::unschedulable("cannot allocate all claims"));
        }
        allocations.push(PendingAllocation {
            pod: pod.into(),
            claim: (claim.key().clone(), claim.uid().into()),
            devices,
            written: None,
        });
        Ok(())
    }

    /// Notes that the allocation of the claim was written.
    pub(super) fn written(&self, claim: &str, version: ResourceVersion) {
        let mut allocations = self.allocations.lock();
        for one in allocations.iter_mut().filter(|one| one.claim.1 == claim) {
            one.written = Some(version);
        }
    }

    /// Removes the allocations of a pod that were not written.
    pub(super) fn remove_pod(&self, pod: &str) {
        let mut allocations = self.allocations.lock();
        allocations.retain(|one| one.pod != pod || one.written.is_some());
    }

    /// All devices in use. The lock is taken before the claims are read: no cycle counts by claims that are older than those
    /// by which an entry was dropped.
    pub(super) fn devices_in_use(&self, claims: Option<&Arc<Cache>>) -> HashSet<DeviceId> {
        let (mut devices, claims) = {
            let mut allocations = self.allocations.lock();
            let claims = claims.map(|claims| claims.snapshot());
            allocations.retain(|one| {
                let claim = claims.as_ref().and_then(|claims| claims.find(&one.claim.0));
                claim.is_some_and(|claim| one.is_pending(claim))
            });
            let devices = allocations.iter().flat_map(|one| one.devices.iter().cloned());
            (devices.collect::<HashSet<_>>(), claims)
        };
        let claims = claims.iter().flat_map(|claims| claims.iter().cloned());
        for claim in claims.filter_map(ObjectView::<Claim>::of) {
            let allocated = claim.view.allocated_devices().iter();
            let exclusive = allocated.filter(|device| !device.admin_access);
            devices.extend(exclusive.map(|device| DeviceId {
                driver: device.driver.clone(),
                pool: device.pool.clone(),
                device: device.device.clone(),
            }));
        }
        devices
    }
}

impl PendingAllocation {
    /// Whether this version of the claim does not show the allocation yet.
    fn is_pending(&self, claim: &Stored) -> bool {
        let is_shown = |version| claim.resource_version() >= version;
        self.claim.1 == claim.uid() && !self.written.is_some_and(is_shown)
    }
}
