//! Binding conditions: a pod is bound once the driver reports that the allocated devices are ready.
//!
//! A device names conditions, which the driver sets in `status.devices` of the claim. PreBind waits for them. If one of the
//! failure conditions becomes true, or the time is over, the attempt fails; the next one finds the claim unavailable, and
//! PostFilter gives the allocation up, so that another device can be allocated (upstream: `isClaimReadyForBinding`,
//! `isClaimTimeout`, `isPodReadyForBinding`).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use setpoint_runtime::events::EventType;
use setpoint_runtime::{Cache, Subscription};

use super::DynamicResources;
use super::objects::{Claim, ObjectView, find};
use crate::framework::{BindRequest, Rejection};

/// The interval of checks while no claim changes, as upstream: a claim of an earlier attempt may time out.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Whether a pod with the claim can be bound.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// All binding conditions are true, or there are none.
    Ready,
    /// The claim has no allocation yet, or the driver has not set all binding conditions.
    Pending,
    /// A failure condition is true; the text is its reason and message.
    Failed(String),
}

pub(super) fn readiness(claim: &Claim) -> Readiness {
    if claim.allocation().is_none() {
        return Readiness::Pending;
    }
    for device in claim.allocated_devices() {
        if device.binding_conditions.is_empty() {
            continue;
        }
        let Some(status) = claim.device_status(device) else {
            return Readiness::Pending;
        };
        let mut failures = device.binding_failure_conditions.iter();
        if let Some(failure) = failures.find_map(|kind| status.true_condition(kind)) {
            let (reason, message) = (&failure.reason, &failure.message);
            return Readiness::Failed(format!("reason={reason}, message={message:?}"));
        }
        let mut conditions = device.binding_conditions.iter();
        if conditions.any(|kind| status.true_condition(kind).is_none()) {
            return Readiness::Pending;
        }
    }
    Readiness::Ready
}

/// Whether the devices of the claim should have been ready by now.
pub(super) fn has_timed_out(claim: &Claim, timeout: Duration, now: Timestamp) -> bool {
    let allocation = claim.allocation().filter(|_| has_binding_conditions(claim));
    let allocated = allocation.and_then(|allocation| allocation.allocation_timestamp);
    allocated.is_some_and(|allocated| allocated.saturating_add(timeout).unwrap_or(Timestamp::MAX) < now)
}

pub(super) fn has_binding_conditions(claim: &Claim) -> bool {
    let mut devices = claim.allocated_devices().iter();
    devices.any(|device| !device.binding_conditions.is_empty())
}

impl DynamicResources {
    /// Waits until the devices of the claims, as they were written, are ready; an error if they will not be, or not in time.
    pub(super) async fn wait_for_devices(
        &self,
        request: &BindRequest,
        claims: &[ObjectView<Claim>],
    ) -> Result<(), Rejection> {
        let Some(cache) = &self.claims else {
            return Ok(());
        };
        record_waiting(request);
        let _waiting = self.waiting_pods.begin_wait();
        let mut changes = subscribe(cache);
        let end = request.clock.now().saturating_add(self.args.binding_timeout);
        let end = end.unwrap_or(Timestamp::MAX);
        // The cache may not have a claim that was just created.
        let written = claims.iter().map(|claim| claim.object.resource_version());
        tokio::select! {
            () = cache.reached(written.max().unwrap_or_default()) => {}
            () = request.clock.sleep(self.args.binding_timeout) => {}
        }
        loop {
            let now = request.clock.now();
            if now >= end {
                return Err(Rejection::error(
                    "device binding timeout: context deadline exceeded",
                ));
            }
            if self.are_ready(claims, now)? {
                return Ok(());
            }
            let left = Duration::try_from(end.duration_since(now)).unwrap_or_default();
            tokio::select! {
                changed = changes.next() => if changed.is_err() { changes = subscribe(cache) },
                () = request.clock.sleep(left.min(CHECK_INTERVAL)) => {}
            }
        }
    }

    /// Whether the devices of all claims are ready; an error if those of one will not be.
    fn are_ready(&self, claims: &[ObjectView<Claim>], now: Timestamp) -> Result<bool, Rejection> {
        for claim in claims {
            let key = claim.object.key();
            let name = key.name();
            let current: Option<ObjectView<Claim>> = find(self.claims.as_ref(), key);
            let current = current.filter(|current| current.object.uid() == claim.object.uid());
            let claim =
                current.ok_or_else(|| Rejection::error(format!("could not find ResourceClaim \"{key}\"")))?;
            let failure = match readiness(&claim.view) {
                Readiness::Ready => continue,
                Readiness::Failed(reason) => format!("device binding failed: claim={name}, {reason}"),
                Readiness::Pending if has_timed_out(&claim.view, self.args.binding_timeout, now) => {
                    format!("device binding timeout: claim={name}")
                }
                Readiness::Pending => return Ok(false),
            };
            return Err(Rejection::error(failure));
        }
        Ok(true)
    }
}

fn record_waiting(request: &BindRequest) {
    let pod = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(request.pod.namespace().to_owned()),
        name: Some(request.pod.key.name().to_owned()),
        uid: Some(request.pod.uid.to_string()),
        resource_version: Some(request.pod.resource_version.to_string()),
        field_path: None,
    };
    let message = format!(
        "waiting for binding conditions for device on node {}",
        request.node
    );
    let events = request.events.with_action("Scheduling");
    events.record(pod, EventType::Normal, "BindingConditionsPending", message);
}

fn subscribe(cache: &Arc<Cache>) -> Subscription {
    let subscribed = cache.subscribe(None);
    subscribed.expect("a subscription from the current state cannot be too old")
}
