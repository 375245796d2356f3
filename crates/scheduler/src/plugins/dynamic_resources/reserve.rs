//! Reserve: the allocation that was found for the chosen node is in flight until the claims show it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::Value;

use super::{ClaimState, DynamicResources, bind};
use crate::framework::{BindRequest, BoxFuture, CycleState, Rejection, Reserve};
use crate::pod_info::PodInfo;

/// The allocations that were reserved for the pod.
#[derive(Debug, Clone)]
pub(super) struct ReservedAllocations {
    /// By the position of the claim; `None` of claims that were allocated already.
    pub(super) allocations: Vec<Option<Value>>,
    /// Whether PreBind began to write them.
    pub(super) is_pre_bound: Arc<AtomicBool>,
}

impl Reserve for DynamicResources {
    fn reserve(&self, cycle: &mut CycleState, pod: &PodInfo, node: &str) -> Result<(), Rejection> {
        let Some(state) = cycle.read::<ClaimState>() else {
            return Ok(());
        };
        if state.claims.is_empty() {
            return Ok(());
        }
        let found = state.found.lock().allocations.get(node).cloned();
        let mut allocations = found.iter().flat_map(|found| found.iter());
        let mut reserved = Vec::new();
        for claim in &state.claims {
            let allocation = match claim.view.allocation() {
                Some(_) => None,
                None => allocations.next(),
            };
            if let Some(allocation) = allocation {
                let devices = allocation.device_uses().collect();
                self.in_flight.add(&pod.uid, &claim.object, devices)?;
            }
            reserved.push(allocation.map(|allocation| allocation.to_json(&claim.view)));
        }
        cycle.write(ReservedAllocations {
            allocations: reserved,
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
