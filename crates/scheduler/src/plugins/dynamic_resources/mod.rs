//! DynamicResources: allocates the devices that the ResourceClaims of a pod request, from published ResourceSlices
//! (upstream: `plugins/dynamicresources` and `dynamic-resource-allocation/structured`).
//!
//! `objects` and `slices` have views of the API objects, `selector` evaluates CEL selectors on devices, `pools` finds the devices of a
//! node, `allocator` searches an allocation, `allocated` knows the devices in use, `bind` writes allocations and
//! reservations, `post_filter` gives up allocations that are in the way, `taint_rules` adds the taints of
//! DeviceTaintRules, `capacity` computes what an allocation consumes of a device that several claims may share.

mod allocated;
mod allocator;
mod bind;
mod capacity;
mod constraint;
mod hints;
mod objects;
mod pools;
mod post_filter;
mod result;
mod selector;
mod slices;
mod taint_rules;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use compact_str::CompactString;
use parking_lot::Mutex;
use serde_json::Value;
use setpoint_api::Key;
use setpoint_runtime::Cache;

use super::{PluginArgs, PluginError, default_normalize};
use crate::framework::{
    CycleState, Dependency, Filter, Handle, NodeScore, Plugin, PreEnqueue, PreFilter, PreFilterResult,
    Registration, Rejection, Reserve, Score, Sign,
};
use crate::pod_info::PodInfo;
use crate::pod_info::node_selector::NodeSelector;
use crate::state::{ClusterState, NodeRef};
use allocated::InFlight;
use allocator::{Allocation, AllocationError, Allocator, UnallocatedClaim};
use objects::{Claim, DeviceClass, ObjectView, all_of, find};
use selector::Selectors;
use slices::ResourceSlice;

const NAME: &str = "DynamicResources";

/// The number of alternatives that a request may have: the first one has the highest score.
const MAX_ALTERNATIVES: usize = 8;

/// The plugin.
#[derive(Debug, Default)]
pub(super) struct DynamicResources {
    claims: Option<Arc<Cache>>,
    slices: Option<Arc<Cache>>,
    classes: Option<Arc<Cache>>,
    taint_rules: Option<Arc<Cache>>,
    selectors: Arc<Selectors>,
    in_flight: InFlight,
}

/// The claims of a pod in one cycle.
#[derive(Debug, Clone)]
struct ClaimState {
    claims: Vec<ObjectView<Claim>>,
    /// The claims without an allocation.
    unallocated: Arc<[UnallocatedClaim]>,
    /// Searches allocations for these claims; `None` if there are none.
    allocator: Option<Arc<Allocator>>,
    /// The allocations that Filter found, by node.
    found: Arc<Mutex<HashMap<CompactString, Arc<Vec<Allocation>>>>>,
}

/// The allocations that were reserved for the pod, by the position of their claim.
#[derive(Debug, Clone)]
struct ReservedAllocations {
    allocations: Vec<Option<Value>>,
}

pub(super) fn build(_: &PluginArgs, handle: &Handle) -> Result<Registration, PluginError> {
    let cache = |resource| handle.cache("resource.k8s.io", resource);
    let plugin = Arc::new(DynamicResources {
        claims: cache("resourceclaims"),
        slices: cache("resourceslices"),
        classes: cache("deviceclasses"),
        taint_rules: cache("devicetaintrules"),
        ..DynamicResources::default()
    });
    Ok(Registration {
        pre_enqueue: Some(plugin.clone()),
        pre_filter: Some(plugin.clone()),
        filter: Some(plugin.clone()),
        post_filter: Some(plugin.clone()),
        score: Some(plugin.clone()),
        reserve: Some(plugin.clone()),
        pre_bind: Some(plugin.clone()),
        enqueue: Some(plugin.clone()),
        sign: Some(plugin),
        ..Registration::new(NAME)
    })
}

impl Plugin for DynamicResources {
    fn name(&self) -> &'static str {
        NAME
    }
}

impl PreEnqueue for DynamicResources {
    /// A pod waits until all its claims exist.
    fn pre_enqueue(&self, pod: &PodInfo) -> Result<(), Rejection> {
        self.claims_of(pod).map(|_| ())
    }
}

impl PreFilter for DynamicResources {
    fn pre_filter(
        &self,
        cycle: &mut CycleState,
        pod: &PodInfo,
        _: &ClusterState,
    ) -> Result<PreFilterResult, Rejection> {
        let mut state = ClaimState {
            claims: Vec::new(),
            unallocated: Arc::default(),
            allocator: None,
            found: Arc::default(),
        };
        // PostFilter expects a state, whatever follows.
        cycle.write(state.clone());
        state.claims = self.claims_of(pod)?;
        if state.claims.is_empty() {
            return Ok(PreFilterResult::Skip);
        }
        let mut unallocated = Vec::new();
        for claim in &state.claims {
            match claim.view.allocation() {
                Some(_) => claim.view.check_reservable(pod)?,
                None => {
                    self.check_unallocated(claim)?;
                    unallocated.push(UnallocatedClaim {
                        key: claim.object.key().clone(),
                        view: claim.view.clone(),
                    });
                }
            }
        }
        if !unallocated.is_empty() {
            state.unallocated = unallocated.into();
            state.allocator = Some(Arc::new(self.allocator()));
        }
        cycle.write(state);
        Ok(PreFilterResult::AllNodes)
    }
}

impl Filter for DynamicResources {
    fn filter(&self, cycle: &CycleState, _: &PodInfo, node: NodeRef<'_>) -> Result<(), Rejection> {
        let Some(state) = cycle.read::<ClaimState>() else {
            return Ok(());
        };
        let label = |name: &str| node.label(name);
        let is_available = |claim: &ObjectView<Claim>| {
            let selector = claim.view.allocated_nodes();
            selector.is_none_or(|selector: &NodeSelector| selector.matches(node.name(), &label))
        };
        let are_available = state.claims.iter().all(is_available);
        if let Some(allocator) = &state.allocator {
            let allocations = match allocator.allocate(&state.unallocated, node.name(), &label) {
                Ok(allocations) => allocations,
                Err(AllocationError::NotFound) => {
                    return Err(Rejection::unresolvable("cannot allocate all claims"));
                }
                Err(AllocationError::TooComplex) => {
                    return Err(Rejection::unresolvable("timed out trying to allocate devices"));
                }
                Err(AllocationError::Failed(reason)) => return Err(Rejection::error(reason)),
            };
            let mut found = state.found.lock();
            found.insert(node.name().into(), Arc::new(allocations));
        }
        match are_available {
            true => Ok(()),
            false => Err(Rejection::unresolvable("resourceclaim not available on the node")),
        }
    }
}

impl Score for DynamicResources {
    /// Alternatives that come first in the list of a request have a higher score.
    fn score(&self, cycle: &CycleState, _: &PodInfo, node: NodeRef<'_>) -> i64 {
        let Some(state) = cycle.read::<ClaimState>() else {
            return 0;
        };
        let found = state.found.lock();
        let Some(allocations) = found.get(node.name()) else {
            return 0;
        };
        let alternatives = allocations.iter().flat_map(Allocation::alternatives);
        let score = |position: usize| i64::try_from(MAX_ALTERNATIVES.saturating_sub(position)).unwrap_or(0);
        alternatives.map(score).sum()
    }

    fn normalize(&self, _: &CycleState, _: &PodInfo, scores: &mut [NodeScore]) {
        default_normalize(scores, false);
    }

    fn normalizes(&self) -> bool {
        true
    }
}

impl Reserve for DynamicResources {
    fn reserve(&self, cycle: &mut CycleState, pod: &PodInfo, node: &str) -> Result<(), Rejection> {
        let Some(state) = cycle
            .read::<ClaimState>()
            .filter(|state| !state.claims.is_empty())
        else {
            return Ok(());
        };
        let found = state.found.lock().get(node).cloned();
        let mut found = found.iter().flat_map(|found| found.iter());
        let mut reserved = Vec::new();
        for claim in &state.claims {
            let allocation = match claim.view.allocation() {
                Some(_) => None,
                None => found.next(),
            };
            if let Some(allocation) = allocation {
                let devices = allocation.device_uses().collect();
                self.in_flight.add(&pod.uid, &claim.object, devices)?;
            }
            reserved.push(allocation.map(|allocation| allocation.to_json(&claim.view)));
        }
        cycle.write(ReservedAllocations {
            allocations: reserved,
        });
        Ok(())
    }

    fn unreserve(&self, _: &mut CycleState, pod: &PodInfo, _: &str) {
        self.in_flight.remove_pod(&pod.uid);
    }
}

impl Sign for DynamicResources {
    fn dependency(&self, pod: &PodInfo, _: &ClusterState) -> Dependency {
        match pod.resource_claims.is_empty() {
            true => Dependency::Node,
            false => Dependency::Cluster,
        }
    }
}

impl DynamicResources {
    /// The claims of the pod, all of which must exist.
    fn claims_of(&self, pod: &PodInfo) -> Result<Vec<ObjectView<Claim>>, Rejection> {
        let mut claims = Vec::new();
        for reference in &pod.resource_claims {
            let Some(name) = &reference.claim else {
                return Err(Rejection::unresolvable(format!(
                    "pod \"{}\": ResourceClaim not created yet",
                    pod.key
                )));
            };
            let found = find::<Claim>(self.claims.as_ref(), &Key::new(pod.namespace(), name));
            let claim = found
                .ok_or_else(|| Rejection::unresolvable(format!("resourceclaim \"{name}\" not found")))?;
            if claim.object.header().deleting {
                let reason = format!("resourceclaim \"{name}\" is being deleted");
                return Err(Rejection::unresolvable(reason));
            }
            let is_owner = claim
                .object
                .controller()
                .is_some_and(|owner| owner.uid == pod.uid);
            if reference.is_generated && !is_owner {
                return Err(Rejection::unresolvable(format!(
                    "ResourceClaim was not created for pod {} (pod is not owner)",
                    pod.key
                )));
            }
            claims.push(claim);
        }
        Ok(claims)
    }

    /// Checks a claim that is to be allocated: its classes exist, and no other pod's cycle allocates it.
    fn check_unallocated(&self, claim: &ObjectView<Claim>) -> Result<(), Rejection> {
        if self.in_flight.contains(&claim.object) {
            return Err(Rejection::unresolvable(format!(
                "resource claim {} is in the process of being allocated",
                claim.object.key()
            )));
        }
        for (request, class) in claim.view.class_names() {
            if find::<DeviceClass>(self.classes.as_ref(), &Key::new("", class)).is_none() {
                return Err(Rejection::unresolvable(format!(
                    "request {request}: device class {class} does not exist"
                )));
            }
        }
        Ok(())
    }

    fn allocator(&self) -> Allocator {
        let classes: Vec<ObjectView<DeviceClass>> = all_of(self.classes.as_ref());
        Allocator {
            slices: all_of::<ResourceSlice>(self.slices.as_ref()),
            classes: classes
                .into_iter()
                .map(|class| (class.object.key().name().into(), class))
                .collect(),
            taint_rules: all_of(self.taint_rules.as_ref()),
            allocated: self.in_flight.allocated_state(self.claims.as_ref()),
            selectors: self.selectors.clone(),
        }
    }
}
