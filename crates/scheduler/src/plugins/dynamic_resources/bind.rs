//! PreBind: writes the allocation of each claim, and reserves it for the pod.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use k8s_openapi::api::resource::v1::ResourceClaim;
use serde_json::{Value, json};
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Key, ResourceVersion, Status, Stored};
use setpoint_runtime::{Client, retry_on_conflict};

use super::binding_conditions::has_binding_conditions;
use super::objects::{Claim, ObjectView};
use super::reserve::{ExtendedAllocation, ReservedAllocations};
use super::{ClaimState, DynamicResources};
use crate::framework::{BindRequest, BoxFuture, CycleState, PreBind, Rejection};
use crate::pod_info::PodInfo;
use crate::report;

const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
const UPDATE_ATTEMPTS: usize = 5;

impl PreBind for DynamicResources {
    fn pre_bind_pre_flight(&self, cycle: &CycleState, _: &PodInfo, _: &str) -> bool {
        cycle.read::<ReservedAllocations>().is_some()
    }

    fn pre_bind<'a>(
        &'a self,
        request: &'a BindRequest,
    ) -> BoxFuture<'a, Result<Option<ResourceVersion>, Rejection>> {
        Box::pin(async move {
            let (Some(state), Some(reserved)) = (
                request.cycle.read::<ClaimState>(),
                request.cycle.read::<ReservedAllocations>(),
            ) else {
                return Ok(None);
            };
            reserved.is_pre_bound.store(true, Ordering::Relaxed);
            let mut claims = self.bind_claims(request, state, reserved).await?;
            let mut version = None;
            if let Some(extended) = &reserved.extended {
                let claim = self.bind_extended(request, extended).await?;
                version = Some(write_extended_status(request, extended, claim.object.key()).await?);
                claims.push(claim);
            }
            if claims.iter().any(|claim| has_binding_conditions(&claim.view)) {
                self.wait_for_devices(request, &claims).await?;
            }
            Ok(version)
        })
    }
}

impl DynamicResources {
    /// Writes the allocations and reservations of the claims that are not reserved yet. Returns all claims.
    async fn bind_claims(
        &self,
        request: &BindRequest,
        state: &ClaimState,
        reserved: &ReservedAllocations,
    ) -> Result<Vec<ObjectView<Claim>>, Rejection> {
        let mut claims = Vec::new();
        for (claim, allocation) in state.claims.iter().zip(&reserved.allocations) {
            let consumers = claim.view.consumers();
            if consumers.iter().any(|consumer| consumer.uid == request.pod.uid) {
                claims.push(claim.clone());
                continue;
            }
            let written = bind_claim(request, claim, allocation.as_ref()).await?;
            self.in_flight
                .written(claim.object.uid(), written.resource_version());
            claims.extend(ObjectView::of(written));
        }
        Ok(claims)
    }

    /// Creates the special claim, and writes its allocation.
    async fn bind_extended(
        &self,
        request: &BindRequest,
        extended: &ExtendedAllocation,
    ) -> Result<ObjectView<Claim>, Rejection> {
        let claims = request
            .client
            .namespaced::<ResourceClaim>(request.pod.namespace());
        let object = extended.requests.to_object(&request.pod);
        let failed = |reason: &dyn std::fmt::Display| {
            let key = &extended.requests.claim.key;
            Rejection::error(format!("create claim for extended resources {key}: {reason}"))
        };
        let created = claims.dynamic().create(object.to_string()).await;
        let created = created.map_err(|status| failed(&status))?;
        let claim = ObjectView::of(created).ok_or_else(|| failed(&"it cannot be decoded"))?;
        *extended.created.lock() = Some(claim.clone());
        let written = bind_claim(request, &claim, Some(&extended.allocation)).await?;
        self.in_flight.created(&request.pod.uid, &written);
        ObjectView::of(written).ok_or_else(|| failed(&"it cannot be decoded"))
    }
}

/// Writes the name and the requests of the special claim to the status of the pod. Returns the new version of the pod.
async fn write_extended_status(
    request: &BindRequest,
    extended: &ExtendedAllocation,
    claim: &Key,
) -> Result<ResourceVersion, Rejection> {
    let pod = &request.pod;
    let change = |object: &mut Value| {
        object["status"]["extendedResourceClaimStatus"] = json!({
            "requestMappings": extended.requests.mappings,
            "resourceClaimName": claim.name(),
        });
        true
    };
    let failed = |reason: &dyn std::fmt::Display| {
        let key = &pod.key;
        Rejection::error(format!("update pod {key} ExtendedResourceClaimStatus: {reason}"))
    };
    let written = report::update_status(&request.client, pod, change).await;
    let written = written.map_err(|status| failed(&status))?;
    written.ok_or_else(|| failed(&"it was bound or replaced in the meantime"))
}

/// Writes the finalizer and the status of a claim. The claim is read again, so that no change is lost. Returns its new version.
async fn bind_claim(
    request: &BindRequest,
    claim: &ObjectView<Claim>,
    allocation: Option<&Value>,
) -> Result<Arc<Stored>, Rejection> {
    let key = claim.object.key();
    let claims = request.client.namespaced::<ResourceClaim>(key.namespace());
    let claims = claims.dynamic();
    let written = retry_on_conflict(UPDATE_ATTEMPTS, || async {
        let fresh = claims.get(key.name()).await?;
        let mut object: Value = fresh.decode().map_err(Status::internal)?;
        if fresh.uid() != claim.object.uid() || fresh.header().deleting {
            let message = format!("claim {key} got deleted in the meantime");
            return Err(Status::internal(message));
        }
        if let Some(allocation) = allocation {
            if !object["status"]["allocation"].is_null() {
                let message = format!("claim {key} got allocated elsewhere in the meantime");
                return Err(Status::internal(message));
            }
            if add_finalizer(&mut object) {
                let updated = claims.update(key.name(), object.to_string()).await?;
                object = updated.decode().map_err(Status::internal)?;
            }
            object["status"]["allocation"] = allocation.clone();
        }
        reserve(&mut object, request);
        claims
            .update_subresource(key.name(), "status", object.to_string())
            .await
    });
    written.await.map_err(|status| {
        let added = match allocation {
            Some(_) => "allocation and reservation",
            None => "reservation",
        };
        Rejection::error(format!("add {added} to claim {key}: {status}"))
    })
}

/// Takes the reservations of the pod back, if PreBind began to write them. The allocations remain: the next attempt uses
/// them, or PostFilter gives them up.
pub(super) async fn revert(request: &BindRequest) {
    let (Some(state), Some(reserved)) = (
        request.cycle.read::<ClaimState>(),
        request.cycle.read::<ReservedAllocations>(),
    ) else {
        return;
    };
    if !reserved.is_pre_bound.load(Ordering::Relaxed) {
        return;
    }
    for claim in &state.claims {
        let reverted = unreserve_claim(request, claim).await;
        if let Err(status) = reverted
            && !status.is_not_found()
        {
            let key = claim.object.key();
            tracing::warn!(claim = %key, pod = %request.pod.key, %status, "cannot take the reservation back");
        }
    }
    let created = reserved.extended.as_ref();
    let created = created.and_then(|extended| extended.created.lock().clone());
    if let Some(claim) = created
        && let Err(status) = delete_claim(&request.client, claim.object.key(), claim.object.uid()).await
    {
        let key = claim.object.key();
        tracing::warn!(claim = %key, pod = %request.pod.key, %status, "cannot delete the claim");
    }
}

/// Deletes a special claim. Its finalizer goes first.
pub(super) async fn delete_claim(client: &Client, key: &Key, uid: &str) -> Result<(), Status> {
    let claims = client.namespaced::<ResourceClaim>(key.namespace());
    let claims = claims.dynamic();
    let deleted = retry_on_conflict(UPDATE_ATTEMPTS, || async {
        let fresh = claims.get(key.name()).await?;
        let mut object: Value = fresh.decode().map_err(Status::internal)?;
        if fresh.uid() != uid {
            return Ok(());
        }
        if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
            finalizers.retain(|finalizer| finalizer != FINALIZER);
            claims.update(key.name(), object.to_string()).await?;
        }
        claims.delete(key.name(), DeleteOptions::with_uid(uid)).await?;
        Ok(())
    });
    match deleted.await {
        Err(status) if !status.is_not_found() => Err(status),
        _ => Ok(()),
    }
}

async fn unreserve_claim(request: &BindRequest, claim: &ObjectView<Claim>) -> Result<(), Status> {
    let key = claim.object.key();
    let claims = request.client.namespaced::<ResourceClaim>(key.namespace());
    let claims = claims.dynamic();
    retry_on_conflict(UPDATE_ATTEMPTS, || async {
        let fresh = claims.get(key.name()).await?;
        let mut object: Value = fresh.decode().map_err(Status::internal)?;
        if fresh.uid() != claim.object.uid() {
            return Ok(());
        }
        let Some(consumers) = object["status"]["reservedFor"].as_array_mut() else {
            return Ok(());
        };
        let count = consumers.len();
        consumers.retain(|consumer| consumer["uid"] != *request.pod.uid);
        if consumers.len() < count {
            claims
                .update_subresource(key.name(), "status", object.to_string())
                .await?;
        }
        Ok(())
    })
    .await
}

/// Returns whether the finalizer was missing.
fn add_finalizer(object: &mut Value) -> bool {
    let finalizers = &mut object["metadata"]["finalizers"];
    match finalizers.as_array_mut() {
        Some(all) if all.iter().any(|one| one == FINALIZER) => return false,
        Some(all) => all.push(json!(FINALIZER)),
        None => *finalizers = json!([FINALIZER]),
    }
    true
}

/// Adds the pod to the consumers. The time of the allocation is for drivers that prepare devices before the binding.
fn reserve(object: &mut Value, request: &BindRequest) {
    let status = &mut object["status"];
    let consumer = json!({"resource": "pods", "name": request.pod.key.name(), "uid": request.pod.uid});
    match status["reservedFor"].as_array_mut() {
        Some(consumers) => consumers.push(consumer),
        None => status["reservedFor"] = json!([consumer]),
    }
    let timestamp = &mut status["allocation"]["allocationTimestamp"];
    if timestamp.is_null() {
        let now = jiff::Timestamp::from_second(request.clock.now().as_second());
        *timestamp = json!(now.unwrap_or_default().to_string());
    }
}
