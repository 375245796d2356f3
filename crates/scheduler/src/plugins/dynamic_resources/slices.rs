//! Views of ResourceSlices and their devices.

use std::collections::BTreeMap;

use compact_str::CompactString;
use serde::Deserialize;
use setpoint_api::quantity::Quantity;

use super::objects::DeviceRequest;
use crate::pod_info::Toleration;
use crate::pod_info::node_selector::NodeSelector;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResourceSlice {
    pub(super) spec: SliceSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SliceSpec {
    pub(super) driver: CompactString,
    pub(super) pool: Pool,
    node_name: Option<CompactString>,
    node_selector: Option<NodeSelector>,
    all_nodes: bool,
    pub(super) per_device_node_selection: bool,
    pub(super) shared_counters: Vec<CounterSet>,
    pub(super) devices: Vec<Device>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Pool {
    pub(super) name: CompactString,
    pub(super) generation: i64,
    pub(super) resource_slice_count: usize,
}

/// The nodes that a slice, or one of its devices, is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct SliceNodes<'a> {
    pub(super) node_name: Option<&'a CompactString>,
    pub(super) node_selector: Option<&'a NodeSelector>,
    all_nodes: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Device {
    pub(super) name: CompactString,
    pub(super) attributes: BTreeMap<CompactString, Attribute>,
    pub(super) capacity: BTreeMap<CompactString, Capacity>,
    pub(super) taints: Vec<Toleration>,
    pub(super) consumes_counters: Vec<CounterConsumption>,
    pub(super) allow_multiple_allocations: bool,
    /// The allocation is restricted to the node, whichever nodes the device is for.
    pub(super) binds_to_node: bool,
    /// Conditions of the allocated device that have to be true before the pod is bound.
    pub(super) binding_conditions: Vec<CompactString>,
    /// Conditions of the allocated device of which none may be true.
    pub(super) binding_failure_conditions: Vec<CompactString>,
    node_name: Option<CompactString>,
    node_selector: Option<NodeSelector>,
    all_nodes: bool,
}

/// Counters that the devices of a pool share.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CounterSet {
    pub(super) name: CompactString,
    pub(super) counters: BTreeMap<CompactString, Capacity>,
}

/// What an allocated device takes of the counters of one set.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct CounterConsumption {
    counter_set: CompactString,
    counters: BTreeMap<CompactString, Capacity>,
}

/// An attribute: one of its fields is set.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Attribute {
    pub(super) int: Option<i64>,
    pub(super) bool: Option<bool>,
    pub(super) string: Option<String>,
    pub(super) version: Option<String>,
}

/// A capacity of a device, or a counter.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Capacity {
    pub(super) value: ApiQuantity,
    pub(super) request_policy: Option<RequestPolicy>,
}

/// The amounts of a capacity that an allocation may consume.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RequestPolicy {
    pub(super) default: Option<ApiQuantity>,
    /// In ascending order.
    pub(super) valid_values: Vec<ApiQuantity>,
    pub(super) valid_range: Option<ValidRange>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ValidRange {
    pub(super) min: Option<ApiQuantity>,
    pub(super) max: Option<ApiQuantity>,
    pub(super) step: Option<ApiQuantity>,
}

/// A quantity of an object. An invalid one cannot have been admitted: it is zero.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(from = "CompactString")]
pub(super) struct ApiQuantity(pub(super) Quantity);

/// The set and the name of a counter in a pool.
pub(super) type CounterId<'a> = (&'a CompactString, &'a CompactString);

// === impl SliceSpec ===

impl SliceSpec {
    pub(super) fn nodes(&self) -> SliceNodes<'_> {
        SliceNodes {
            node_name: self.node_name.as_ref(),
            node_selector: self.node_selector.as_ref(),
            all_nodes: self.all_nodes,
        }
    }
}

// === impl SliceNodes ===

impl SliceNodes<'_> {
    pub(super) fn matches<'b>(self, node: &str, label: &'b dyn Fn(&str) -> Option<&'b str>) -> bool {
        match (self.node_name, self.all_nodes, self.node_selector) {
            (Some(name), ..) => name == node,
            (None, true, _) => true,
            (None, false, Some(selector)) => selector.matches(node, label),
            (None, false, None) => false,
        }
    }
}

// === impl Device ===

impl Device {
    /// The nodes of the device, in a slice that selects them per device.
    pub(super) fn nodes(&self) -> SliceNodes<'_> {
        SliceNodes {
            node_name: self.node_name.as_ref(),
            node_selector: self.node_selector.as_ref(),
            all_nodes: self.all_nodes,
        }
    }

    /// An attribute by its full name, `domain/name`; the driver is the domain of names without one.
    pub(super) fn attribute(&self, name: &str, driver: &str) -> Option<&Attribute> {
        let short = || name.strip_prefix(driver)?.strip_prefix('/');
        self.attributes
            .get(name)
            .or_else(|| self.attributes.get(short()?))
    }

    /// The set and the name of each counter that it consumes, and how much.
    pub(super) fn consumed_counters(&self) -> impl Iterator<Item = (CounterId<'_>, Quantity)> {
        self.consumes_counters.iter().flat_map(|set| {
            let counters = set.counters.iter();
            counters.map(|(name, amount)| ((&set.counter_set, name), amount.value.0))
        })
    }

    /// Whether it has a taint that the request does not tolerate.
    pub(super) fn is_tainted_for(&self, request: &DeviceRequest) -> bool {
        self.taints.iter().any(|taint| request.is_kept_off_by(taint))
    }
}

// === impl ApiQuantity ===

impl From<CompactString> for ApiQuantity {
    fn from(text: CompactString) -> Self {
        Self(text.parse().unwrap_or_default())
    }
}
