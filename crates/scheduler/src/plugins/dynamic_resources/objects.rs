//! Views of ResourceClaims, ResourceSlices and DeviceClasses.

use std::collections::BTreeMap;
use std::sync::Arc;

use compact_str::CompactString;
use serde::Deserialize;
use serde_json::Value;
use setpoint_api::Key;
use setpoint_api::quantity::{Format, Quantity};
use setpoint_runtime::Cache;

use crate::framework::Rejection;
pub(super) use crate::plugins::storage::ObjectView;
use crate::pod_info::node_selector::NodeSelector;
use crate::pod_info::{PodInfo, Toleration};

/// The number of consumers that a claim may have at once.
const MAX_RESERVATIONS: usize = 256;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Claim {
    pub(super) spec: ClaimSpec,
    status: ClaimStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClaimSpec {
    pub(super) devices: DeviceClaim,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DeviceClaim {
    pub(super) requests: Vec<Request>,
    pub(super) constraints: Vec<Constraint>,
    pub(super) config: Vec<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Request {
    pub(super) name: CompactString,
    pub(super) exactly: Option<DeviceRequest>,
    pub(super) first_available: Vec<DeviceRequest>,
}

/// The devices of a request, or of one of its alternatives.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DeviceRequest {
    /// Empty unless it is an alternative.
    pub(super) name: CompactString,
    pub(super) device_class_name: CompactString,
    pub(super) selectors: Vec<DeviceSelector>,
    allocation_mode: CompactString,
    count: i64,
    pub(super) admin_access: bool,
    pub(super) tolerations: Vec<Toleration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DeviceSelector {
    pub(super) cel: CelSelector,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CelSelector {
    pub(super) expression: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Constraint {
    pub(super) requests: Vec<CompactString>,
    pub(super) match_attribute: Option<CompactString>,
    pub(super) distinct_attribute: Option<CompactString>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimStatus {
    allocation: Option<AllocationResult>,
    reserved_for: Vec<Consumer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AllocationResult {
    devices: AllocatedDevices,
    node_selector: Option<NodeSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AllocatedDevices {
    results: Vec<AllocatedDevice>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AllocatedDevice {
    pub(super) driver: CompactString,
    pub(super) pool: CompactString,
    pub(super) device: CompactString,
    pub(super) admin_access: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Consumer {
    pub(super) uid: CompactString,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DeviceClass {
    pub(super) spec: DeviceClassSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DeviceClassSpec {
    pub(super) selectors: Vec<DeviceSelector>,
    pub(super) config: Vec<Value>,
}

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

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Capacity {
    pub(super) value: CompactString,
}

/// The set and the name of a counter in a pool.
pub(super) type CounterId<'a> = (&'a CompactString, &'a CompactString);

impl Capacity {
    /// The value. An invalid one cannot have been admitted: it is zero.
    pub(super) fn quantity(&self) -> Quantity {
        let zero = Quantity::new(0, Format::DecimalSi);
        self.value.parse().unwrap_or(zero)
    }
}

// === impl Claim ===

impl Claim {
    pub(super) fn allocation(&self) -> Option<&AllocationResult> {
        self.status.allocation.as_ref()
    }

    /// The nodes that the allocation is for; `None` for all.
    pub(super) fn allocated_nodes(&self) -> Option<&NodeSelector> {
        self.allocation()?.node_selector.as_ref()
    }

    pub(super) fn allocated_devices(&self) -> &[AllocatedDevice] {
        self.allocation()
            .map_or(&[], |allocation| &allocation.devices.results)
    }

    pub(super) fn consumers(&self) -> &[Consumer] {
        &self.status.reserved_for
    }

    /// Checks that the claim is reserved for the pod, or may be.
    pub(super) fn check_reservable(&self, pod: &PodInfo) -> Result<(), Rejection> {
        let is_reserved = self.consumers().iter().any(|consumer| consumer.uid == pod.uid);
        match is_reserved || self.consumers().len() < MAX_RESERVATIONS {
            true => Ok(()),
            false => Err(Rejection::unresolvable("resourceclaim in use")),
        }
    }

    /// The device classes with the names of their requests.
    pub(super) fn class_names(&self) -> impl Iterator<Item = (String, &str)> {
        self.spec.devices.requests.iter().flat_map(|request| {
            request
                .alternatives()
                .map(|(_, one)| (request.full_name(one), one.device_class_name.as_str()))
        })
    }
}

// === impl Request ===

impl Request {
    /// The one request, or the alternatives with their positions.
    pub(super) fn alternatives(&self) -> impl Iterator<Item = (Option<usize>, &DeviceRequest)> {
        let exactly = self.exactly.iter().map(|one| (None, one));
        let first = self.first_available.iter().enumerate();
        exactly.chain(first.map(|(position, one)| (Some(position), one)))
    }

    /// The name of the request, or `request/alternative`.
    pub(super) fn full_name(&self, one: &DeviceRequest) -> String {
        match one.name.is_empty() {
            true => self.name.to_string(),
            false => format!("{}/{}", self.name, one.name),
        }
    }
}

// === impl DeviceRequest ===

impl DeviceRequest {
    pub(super) fn is_for_all(&self) -> bool {
        self.allocation_mode == "All"
    }

    pub(super) fn count(&self) -> usize {
        usize::try_from(self.count.max(1)).unwrap_or(1)
    }

    /// Whether it does not tolerate the taint of a device.
    pub(super) fn is_kept_off_by(&self, taint: &Toleration) -> bool {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            && !self.tolerations.iter().any(|toleration| toleration.covers(taint))
    }
}

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
            counters.map(|(name, amount)| ((&set.counter_set, name), amount.quantity()))
        })
    }

    /// Whether it has a taint that the request does not tolerate.
    pub(super) fn is_tainted_for(&self, request: &DeviceRequest) -> bool {
        self.taints.iter().any(|taint| request.is_kept_off_by(taint))
    }
}

pub(super) fn find<T: for<'a> Deserialize<'a> + Send + Sync + 'static>(
    cache: Option<&Arc<Cache>>,
    key: &Key,
) -> Option<ObjectView<T>> {
    ObjectView::of(cache?.find(key)?)
}

pub(super) fn all_of<T: for<'a> Deserialize<'a> + Send + Sync + 'static>(
    cache: Option<&Arc<Cache>>,
) -> Vec<ObjectView<T>> {
    let snapshot = cache.map(|cache| cache.snapshot());
    let objects = snapshot.iter().flat_map(|snapshot| snapshot.iter().cloned());
    objects.filter_map(ObjectView::of).collect()
}
