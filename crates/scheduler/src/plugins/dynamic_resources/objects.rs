//! Views of ResourceClaims and DeviceClasses.

use std::collections::BTreeMap;
use std::sync::Arc;

use compact_str::CompactString;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use setpoint_api::Key;
use setpoint_runtime::Cache;

use super::slices::ApiQuantity;
use crate::framework::Rejection;
pub(super) use crate::plugins::storage::ObjectView;
use crate::pod_info::node_selector::NodeSelector;
use crate::pod_info::{PodInfo, Toleration};

/// The number of consumers that a claim may have at once.
const MAX_RESERVATIONS: usize = 256;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Claim {
    metadata: ClaimMetadata,
    pub(super) spec: ClaimSpec,
    status: ClaimStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimMetadata {
    annotations: BTreeMap<CompactString, String>,
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
    pub(super) capacity: CapacityRequirements,
}

/// The capacities that a request needs of each device.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CapacityRequirements {
    pub(super) requests: BTreeMap<CompactString, ApiQuantity>,
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
    devices: Vec<DeviceStatus>,
}

/// What the driver reports of an allocated device.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DeviceStatus {
    driver: CompactString,
    pool: CompactString,
    device: CompactString,
    conditions: Vec<Condition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: CompactString,
    status: CompactString,
    pub(super) reason: String,
    pub(super) message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AllocationResult {
    devices: AllocatedDevices,
    node_selector: Option<NodeSelector>,
    pub(super) allocation_timestamp: Option<Timestamp>,
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
    /// Set if other claims may have the device, too.
    #[serde(rename = "shareID")]
    pub(super) share_id: Option<CompactString>,
    pub(super) consumed_capacity: BTreeMap<CompactString, ApiQuantity>,
    pub(super) binding_conditions: Vec<CompactString>,
    pub(super) binding_failure_conditions: Vec<CompactString>,
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

// === impl Claim ===

impl Claim {
    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.get(name).map(String::as_str)
    }

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

    /// What the driver reports of an allocated device; `None` if it reports nothing.
    pub(super) fn device_status(&self, device: &AllocatedDevice) -> Option<&DeviceStatus> {
        let mut statuses = self.status.devices.iter();
        statuses.find(|status| {
            status.device == device.device && status.driver == device.driver && status.pool == device.pool
        })
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

// === impl DeviceStatus ===

impl DeviceStatus {
    /// The condition of this type, if it is true.
    pub(super) fn true_condition(&self, kind: &str) -> Option<&Condition> {
        let mut conditions = self.conditions.iter();
        conditions.find(|condition| condition.kind == kind && condition.status == "True")
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

    /// The name of the request, or that of the alternative alone.
    pub(super) fn own_name<'a>(&'a self, one: &'a DeviceRequest) -> &'a str {
        match one.name.is_empty() {
            true => &self.name,
            false => &one.name,
        }
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
