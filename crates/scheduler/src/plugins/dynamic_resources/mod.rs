//! DynamicResources: allocates the devices that the ResourceClaims of a pod request, from published ResourceSlices
//! (upstream: `plugins/dynamicresources` and `dynamic-resource-allocation/structured`).
//!
//! `objects` and `slices` have views of the API objects, `selector` evaluates CEL selectors on devices, `pools` finds the devices of a
//! node, `allocator` searches an allocation, `allocated` knows the devices in use, `bind` writes allocations and
//! reservations, `post_filter` gives up allocations that are in the way, `taint_rules` adds the taints of
//! DeviceTaintRules, `binding_conditions` waits until devices are ready, `args` reads the arguments, `extended_resources` has
//! the special claim for extended resources, `reserve` keeps the allocation of a pod that is being bound, `capacity` computes what an allocation consumes of a device that several claims may share.

mod allocated;
mod allocator;
mod args;
mod bind;
mod binding_conditions;
mod capacity;
mod constraint;
mod extended_resources;
mod hints;
mod objects;
mod pools;
mod post_filter;
mod reserve;
mod result;
mod selector;
mod slices;
mod taint_rules;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use compact_str::CompactString;
use parking_lot::Mutex;
use setpoint_api::{Clock, Key};
use setpoint_runtime::Cache;

use super::device_classes::DeviceClasses;
use super::{PluginArgs, PluginError, default_normalize};
use crate::framework::{
    CycleState, Dependency, Filter, Handle, NodeScore, Plugin, PreEnqueue, PreFilter, PreFilterResult,
    Registration, Rejection, Score, Sign, WaitingPods,
};
use crate::pod_info::PodInfo;
use crate::pod_info::node_selector::NodeSelector;
use crate::state::{ClusterState, NodeRef};
use allocated::InFlight;
use allocator::{Allocation, AllocationError, Allocator, UnallocatedClaim};
use args::Args;
pub(super) use args::check as check_args;
use binding_conditions::{Readiness, has_timed_out, readiness};
use extended_resources::{ExtendedRequests, ExtendedResourceClaim, is_backed};
use objects::{Claim, DeviceClass, ObjectView, all_of, find};
use selector::Selectors;
use slices::ResourceSlice;

const NAME: &str = "DynamicResources";

/// The number of alternatives that a request may have: the first one has the highest score.
const MAX_ALTERNATIVES: usize = 8;

/// The plugin.
#[derive(Debug)]
pub(super) struct DynamicResources {
    args: Args,
    clock: Arc<dyn Clock>,
    waiting_pods: Arc<WaitingPods>,
    /// The classes that back extended resources.
    backing_classes: DeviceClasses,
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
    /// The claim for the extended resources of the pod, if a class backs one.
    extended: Option<ExtendedResourceClaim>,
    /// The claims without an allocation.
    unallocated: Arc<[UnallocatedClaim]>,
    /// Searches allocations for these claims; `None` if there are none.
    allocator: Option<Arc<Allocator>>,
    found: Arc<Mutex<FilterResults>>,
}

/// What Filter found on the nodes.
#[derive(Debug, Default)]
struct FilterResults {
    /// The allocations, by node.
    allocations: HashMap<CompactString, NodeAllocation>,
    /// The positions of allocated claims that were not available on a node.
    unavailable: BTreeSet<usize>,
}

/// The allocations of all claims on one node.
#[derive(Debug, Clone)]
struct NodeAllocation {
    /// In the order of the claims; that of the special claim is the last.
    allocations: Arc<Vec<Allocation>>,
    extended: Option<ExtendedRequests>,
}

pub(super) fn build(args: &PluginArgs, handle: &Handle) -> Result<Registration, PluginError> {
    let plugin = Arc::new(DynamicResources::new(Args::read(args)?, handle));
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
            extended: None,
            unallocated: Arc::default(),
            allocator: None,
            found: Arc::default(),
        };
        // PostFilter expects a state, whatever follows.
        cycle.write(state.clone());
        state.claims = self.claims_of(pod)?;
        state.extended = self.extended_resource_claim(pod)?;
        if state.claims.is_empty() && state.extended.is_none() {
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
        if !unallocated.is_empty() || state.extended.is_some() {
            state.unallocated = unallocated.into();
            state.allocator = Some(Arc::new(self.allocator()));
        }
        cycle.write(state);
        Ok(PreFilterResult::AllNodes)
    }
}

impl Filter for DynamicResources {
    fn filter(&self, cycle: &CycleState, pod: &PodInfo, node: NodeRef<'_>) -> Result<(), Rejection> {
        let Some(state) = cycle.read::<ClaimState>() else {
            return Ok(());
        };
        let extended = state.extended.as_ref();
        let extended = extended.map_or(Ok(None), |claim| claim.requests_on(pod, node))?;
        let claims = state.claims.iter().enumerate();
        let unavailable = claims.filter(|(_, claim)| !self.is_available(&claim.view, node));
        let unavailable: Vec<usize> = unavailable.map(|(position, _)| position).collect();
        if let Some(allocator) = &state.allocator {
            allocate(allocator, state, extended, node)?;
        }
        match unavailable.is_empty() {
            true => Ok(()),
            false => {
                state.found.lock().unavailable.extend(unavailable);
                Err(Rejection::unresolvable("resourceclaim not available on the node"))
            }
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
        let Some(found) = found.allocations.get(node.name()) else {
            return 0;
        };
        let alternatives = found.allocations.iter().flat_map(Allocation::alternatives);
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

impl Sign for DynamicResources {
    fn dependency(&self, pod: &PodInfo, _: &ClusterState) -> Dependency {
        match pod.resource_claims.is_empty() && !self.has_backed_resources(pod) {
            true => Dependency::Node,
            false => Dependency::Cluster,
        }
    }
}

impl DynamicResources {
    fn new(args: Args, handle: &Handle) -> Self {
        let cache = |resource| handle.cache("resource.k8s.io", resource);
        Self {
            args,
            clock: handle.clock().clone(),
            waiting_pods: handle.waiting_pods().clone(),
            backing_classes: DeviceClasses::new(handle),
            claims: cache("resourceclaims"),
            slices: cache("resourceslices"),
            classes: cache("deviceclasses"),
            taint_rules: cache("devicetaintrules"),
            selectors: Arc::default(),
            in_flight: InFlight::default(),
        }
    }

    fn has_backed_resources(&self, pod: &PodInfo) -> bool {
        pod.spec.has_extended_resources() && is_backed(pod, &self.backing_classes.by_resource())
    }

    /// The claim for the extended resources of the pod. One that is being allocated for an earlier attempt is waited for.
    fn extended_resource_claim(&self, pod: &PodInfo) -> Result<Option<ExtendedResourceClaim>, Rejection> {
        if !pod.spec.has_extended_resources() {
            return Ok(None);
        }
        let classes = self.backing_classes.by_resource();
        let claim = ExtendedResourceClaim::of(pod, classes, self.claims.as_ref());
        match &claim {
            Some(ExtendedResourceClaim::Stale(stale)) if stale.view.allocation().is_none() => {
                self.check_not_in_flight(stale).map(|()| claim)
            }
            _ => Ok(claim),
        }
    }

    /// Whether a claim, if it is allocated, is allocated for the node and its devices are ready, or may still become so.
    fn is_available(&self, claim: &Claim, node: NodeRef<'_>) -> bool {
        let label = |name: &str| node.label(name);
        let is_for_node = |selector: &NodeSelector| selector.matches(node.name(), &label);
        claim.allocation().is_none()
            || claim.allocated_nodes().is_none_or(is_for_node)
                && match readiness(claim) {
                    Readiness::Ready => true,
                    Readiness::Pending => !has_timed_out(claim, self.args.binding_timeout, self.clock.now()),
                    Readiness::Failed(_) => false,
                }
    }

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
        self.check_not_in_flight(claim)?;
        for (request, class) in claim.view.class_names() {
            if find::<DeviceClass>(self.classes.as_ref(), &Key::new("", class)).is_none() {
                return Err(Rejection::unresolvable(format!(
                    "request {request}: device class {class} does not exist"
                )));
            }
        }
        Ok(())
    }

    fn check_not_in_flight(&self, claim: &ObjectView<Claim>) -> Result<(), Rejection> {
        match self.in_flight.contains(&claim.object) {
            true => Err(Rejection::unresolvable(format!(
                "resource claim {} is in the process of being allocated",
                claim.object.key()
            ))),
            false => Ok(()),
        }
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
            timeout: self.args.filter_timeout,
            clock: self.clock.clone(),
        }
    }
}

/// Allocates the claims without an allocation on the node, with the special one that it needs.
fn allocate(
    allocator: &Allocator,
    state: &ClaimState,
    extended: Option<ExtendedRequests>,
    node: NodeRef<'_>,
) -> Result<(), Rejection> {
    let mut claims = state.unallocated.to_vec();
    claims.extend(extended.iter().map(|extended| extended.claim.clone()));
    if claims.is_empty() {
        return Ok(());
    }
    let label = |name: &str| node.label(name);
    let allocations = match allocator.allocate(&claims, node.name(), &label) {
        Ok(allocations) => Arc::new(allocations),
        Err(AllocationError::NotFound) => {
            return Err(Rejection::unresolvable("cannot allocate all claims"));
        }
        Err(AllocationError::TimedOut) => {
            let node = node.name();
            return Err(Rejection::error(format!(
                "node {node}: timed out trying to allocate devices"
            )));
        }
        Err(AllocationError::Failed(reason)) => return Err(Rejection::error(reason)),
    };
    let found = NodeAllocation {
        allocations,
        extended,
    };
    let mut results = state.found.lock();
    results.allocations.insert(node.name().into(), found);
    Ok(())
}
