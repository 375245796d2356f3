//! [`gather_pools`]: the devices that a node can use, by resource pool.

use std::collections::BTreeMap;

use compact_str::CompactString;
use setpoint_api::quantity::Quantity;

use super::allocated::{AllocatedState, DeviceId};
use super::objects::ObjectView;
use super::slices::{CounterId, Device, ResourceSlice, SliceNodes};

/// The driver and the name of a pool.
pub(super) type PoolId = (CompactString, CompactString);

/// A pool with the devices that the node can use.
#[derive(Debug)]
pub(super) struct NodePool<'a> {
    pub(super) driver: &'a CompactString,
    pub(super) name: &'a CompactString,
    /// Whether slices of the current generation are missing: no device is allocated until they are published.
    pub(super) is_incomplete: bool,
    pub(super) devices: Vec<PoolDevice<'a>>,
    /// Whether a device may have to be prepared before the pod is bound: other pools are tried first.
    has_binding_conditions: bool,
    /// What is left of the counters that the devices share; negative if more is consumed than there is.
    pub(super) counters: BTreeMap<CounterId<'a>, Quantity>,
}

/// A device with the nodes that it is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolDevice<'a> {
    pub(super) device: &'a Device,
    pub(super) nodes: SliceNodes<'a>,
}

impl<'a> NodePool<'a> {
    /// Whether the device is of this pool.
    pub(super) fn has(&self, device: &DeviceId) -> bool {
        *self.driver == device.driver && *self.name == device.pool
    }

    /// Whether there is enough of the counters that the device consumes. As upstream, none of the pool's counters may be
    /// exceeded already.
    pub(super) fn has_counters(&self, device: &Device) -> bool {
        let has = |(counter, amount)| self.counters.get(&counter).is_some_and(|left| *left >= amount);
        device.consumed_counters().all(has) && self.counters.values().all(|left| !left.is_negative())
    }

    /// Changes the counters by what the device consumes.
    pub(super) fn change_counters(&mut self, device: &'a Device, change: fn(Quantity, Quantity) -> Quantity) {
        for (counter, amount) in device.consumed_counters() {
            if let Some(left) = self.counters.get_mut(&counter) {
                *left = change(*left, amount);
            }
        }
    }
}

/// The pools with slices for the node. Only the newest generation of a pool counts.
pub(super) fn gather_pools<'a, 'b>(
    slices: &'a [ObjectView<ResourceSlice>],
    allocated: &AllocatedState,
    node: &str,
    label: &'b dyn Fn(&str) -> Option<&'b str>,
) -> Vec<NodePool<'a>> {
    let mut by_pool: BTreeMap<PoolId, Vec<&'a ResourceSlice>> = BTreeMap::new();
    for slice in slices {
        let spec = &slice.view.spec;
        let id = (spec.driver.clone(), spec.pool.name.clone());
        by_pool.entry(id).or_default().push(&slice.view);
    }
    let pools = by_pool.into_values();
    let pools = pools.filter_map(|slices| {
        let mut pool = gather_pool(&slices, node, label)?;
        pool.counters = left_counters(&slices, allocated);
        Some(pool)
    });
    let mut pools: Vec<NodePool<'a>> = pools.collect();
    pools.sort_by_key(|pool| pool.has_binding_conditions && !pool.is_incomplete);
    pools
}

fn gather_pool<'a, 'b>(
    slices: &[&'a ResourceSlice],
    node: &str,
    label: &'b dyn Fn(&str) -> Option<&'b str>,
) -> Option<NodePool<'a>> {
    let newest = slices.iter().map(|slice| slice.spec.pool.generation).max()?;
    let current: Vec<&&ResourceSlice> = slices
        .iter()
        .filter(|slice| slice.spec.pool.generation == newest)
        .collect();
    let spec = &current.first()?.spec;
    let mut pool = NodePool {
        driver: &spec.driver,
        name: &spec.pool.name,
        is_incomplete: current.len() != spec.pool.resource_slice_count,
        devices: Vec::new(),
        has_binding_conditions: false,
        counters: BTreeMap::new(),
    };
    let mut is_for_node = false;
    for slice in current {
        let spec = &slice.spec;
        let all_devices = spec.devices.iter();
        let devices: Vec<PoolDevice<'a>> = match spec.per_device_node_selection {
            true => all_devices
                .filter(|device| device.nodes().matches(node, label))
                .map(|device| PoolDevice {
                    device,
                    nodes: device.nodes(),
                })
                .collect(),
            false if spec.nodes().matches(node, label) => all_devices
                .map(|device| PoolDevice {
                    device,
                    nodes: spec.nodes(),
                })
                .collect(),
            false => continue,
        };
        if spec.per_device_node_selection && devices.is_empty() {
            continue;
        }
        is_for_node = true;
        if spec.shared_counters.is_empty() {
            let mut all = spec.devices.iter();
            pool.has_binding_conditions |= all.any(|device| !device.binding_conditions.is_empty());
            pool.devices.extend(devices);
        }
    }
    is_for_node.then_some(pool)
}

/// The counters of a pool without what devices in use consume of them, whichever node they are for.
fn left_counters<'a>(
    slices: &[&'a ResourceSlice],
    allocated: &AllocatedState,
) -> BTreeMap<CounterId<'a>, Quantity> {
    let newest = slices.iter().map(|slice| slice.spec.pool.generation).max();
    let current = || {
        let specs = slices.iter().map(|slice| &slice.spec);
        specs.filter(|spec| Some(spec.pool.generation) == newest)
    };
    let sets = current().flat_map(|spec| &spec.shared_counters);
    let mut left: BTreeMap<CounterId<'a>, Quantity> = sets
        .flat_map(|set| {
            let counters = set.counters.iter();
            counters.map(|(name, value)| ((&set.name, name), value.value.0))
        })
        .collect();
    if left.is_empty() {
        return left;
    }
    for spec in current() {
        let consumers = spec
            .devices
            .iter()
            .filter(|device| !device.consumes_counters.is_empty());
        for device in consumers {
            let id = DeviceId {
                driver: spec.driver.clone(),
                pool: spec.pool.name.clone(),
                device: device.name.clone(),
            };
            if !allocated.is_in_use(&id) {
                continue;
            }
            for (counter, amount) in device.consumed_counters() {
                if let Some(left) = left.get_mut(&counter) {
                    *left = *left - amount;
                }
            }
        }
    }
    left
}
