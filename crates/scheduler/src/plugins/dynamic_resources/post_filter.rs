//! PostFilter: gives up an allocation that no other pod uses, if it keeps the pod from the nodes that fit otherwise.

use k8s_openapi::api::resource::v1::ResourceClaim;
use serde_json::{Value, json};
use setpoint_api::{Key, Status};
use setpoint_runtime::retry_on_conflict;

use super::bind::delete_claim;
use super::extended_resources::ExtendedResourceClaim;
use super::objects::{Claim, ObjectView};
use super::{ClaimState, DynamicResources};
use crate::framework::{PostFilter, PostFilterAction, PostFilterInput, PostFilterResult};

const UPDATE_ATTEMPTS: usize = 5;

impl PostFilter for DynamicResources {
    fn post_filter(&self, input: &PostFilterInput<'_>) -> PostFilterResult {
        // Another plugin rejected the pod before this one saw it: upstream ends here, without preemption.
        let Some(state) = input.cycle.read::<ClaimState>() else {
            return PostFilterResult {
                message: "not found".to_owned(),
                is_successful: true,
                ..PostFilterResult::default()
            };
        };
        if let Some(claim) = unavailable_claim(state, &input.pod.uid) {
            return PostFilterResult {
                message: "deallocation of ResourceClaim completed".to_owned(),
                action: Some(deallocation(
                    claim.object.key().clone(),
                    claim.object.uid().into(),
                )),
                ..PostFilterResult::default()
            };
        }
        match &state.extended {
            Some(ExtendedResourceClaim::Stale(claim)) => PostFilterResult {
                message: "deletion of ResourceClaim completed".to_owned(),
                action: Some(deletion(claim.object.key().clone(), claim.object.uid().into())),
                ..PostFilterResult::default()
            },
            _ => PostFilterResult::default(),
        }
    }
}

/// A claim that was not available on a node, and that only this pod may use.
fn unavailable_claim<'a>(state: &'a ClaimState, pod: &str) -> Option<&'a ObjectView<Claim>> {
    let found = state.found.lock();
    let mut unavailable = found
        .unavailable
        .iter()
        .filter_map(|position| state.claims.get(*position));
    unavailable.find(|claim| {
        let mut consumers = claim.view.consumers().iter();
        consumers.all(|consumer| consumer.uid == pod)
    })
}

/// Deletes the special claim that an earlier attempt left behind.
fn deletion(key: Key, uid: String) -> PostFilterAction {
    PostFilterAction(Box::new(move |context| {
        Box::pin(async move { delete_claim(&context.client, &key, &uid).await })
    }))
}

/// Removes the allocation and the reservations from the status of the claim.
fn deallocation(key: Key, uid: String) -> PostFilterAction {
    PostFilterAction(Box::new(move |context| {
        Box::pin(async move {
            let claims = context.client.namespaced::<ResourceClaim>(key.namespace());
            retry_on_conflict(UPDATE_ATTEMPTS, || async {
                let fresh = claims.dynamic().get(key.name()).await?;
                let mut object: Value = fresh.decode().map_err(Status::internal)?;
                if fresh.uid() != uid {
                    return Ok(());
                }
                if let Some(status) = object["status"].as_object_mut() {
                    for field in ["allocation", "reservedFor", "devices"] {
                        status.remove(field);
                    }
                } else {
                    object["status"] = json!({});
                }
                let json = object.to_string();
                claims
                    .dynamic()
                    .update_subresource(key.name(), "status", json)
                    .await?;
                Ok(())
            })
            .await
        })
    }))
}
