//! Reserve: the allocation that was found for the chosen node is in flight until the claims show it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use serde_json::Value;

use super::extended_resources::ExtendedRequests;
use super::objects::{Claim, ObjectView};
use super::{ClaimState, DynamicResources, bind};
use crate::framework::{BindRequest, BoxFuture, CycleState, Rejection, Reserve};
use crate::pod_info::PodInfo;

/// The allocations that were reserved for the pod.
#[derive(Debug, Clone)]
pub(super) struct ReservedAllocations {
    /// By the position of the claim; `None` of claims that were allocated already.
    pub(super) allocations: Vec<Option<Value>>,
    pub(super) extended: Option<ExtendedAllocation>,
    /// Whether PreBind began to write them.
    pub(super) is_pre_bound: Arc<AtomicBool>,
}

/// The allocation of the special claim.
#[derive(Debug, Clone)]
pub(super) struct ExtendedAllocation {
    pub(super) requests: ExtendedRequests,
    pub(super) allocation: Value,
    /// The claim, once PreBind created it.
    pub(super) created: Arc<Mutex<Option<ObjectView<Claim>>>>,
}

impl Reserve for DynamicResources {
    fn reserve(&self, cycle: &mut CycleState, pod: &PodInfo, node: &str) -> Result<(), Rejection> {
        let Some(state) = cycle.read::<ClaimState>() else {
            return Ok(());
        };
        let found = state.found.lock().allocations.get(node).cloned();
        if state.claims.is_empty() && found.is_none() {
            return Ok(());
        }
        let mut allocations = found.iter().flat_map(|found| found.allocations.iter());
        let mut reserved = Vec::new();
        for claim in &state.claims {
            let allocation = match claim.view.allocation() {
                Some(_) => None,
                None => allocations.next(),
            };
            if let Some(allocation) = allocation {
                let devices = allocation.device_uses().collect();
                self.in_flight.add(&pod.uid, Some(&*claim.object), devices)?;
            }
            reserved.push(allocation.map(|allocation| allocation.to_json(&claim.view)));
        }
        let requests = found.as_ref().and_then(|found| found.extended.clone());
        let extended = match requests.zip(allocations.next()) {
            Some((requests, allocation)) => {
                let devices = allocation.device_uses().collect();
                self.in_flight.add(&pod.uid, None, devices)?;
                Some(ExtendedAllocation {
                    allocation: allocation.to_json(&requests.claim.view),
                    requests,
                    created: Arc::default(),
                })
            }
            None => None,
        };
        cycle.write(ReservedAllocations {
            allocations: reserved,
            extended,
            is_pre_bound: Arc::default(),
        });
        Ok(())
    }

    fn unreserve(&self, _: &mut CycleState, pod: &PodInfo, _: &str) {
        self.in_flight.remove_pod(&pod.uid);
    }

    fn revert<'a>(&'a self, request: &'a BindRequest) -> BoxFuture<'a, ()> {
        Box::pin(bind::revert(request))
    }
}
