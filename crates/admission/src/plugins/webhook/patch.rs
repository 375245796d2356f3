//! Applies the JSON patch of a mutating webhook to the object under review.

use setpoint_api::Status;
use setpoint_codec::json;
use setpoint_registry_api::Review;
use setpoint_schema::Tree;
use setpoint_schema::patch;

use super::call::{self, CallError};
use super::configuration::Webhook;
use super::object_versions::{self, ObjectVersions};
use super::response::AdmissionResponse;
use crate::matching::MatchedResource;

/// Applies the patch of a response. Returns whether it has changed the object, and the patch for the audit event.
pub(super) fn apply(
    review: &mut Review<'_>,
    (webhook, matched): (&Webhook, &MatchedResource),
    objects: &ObjectVersions,
    response: AdmissionResponse,
) -> Result<Option<AppliedPatch>, CallError> {
    if response.patch.is_empty() {
        return Ok(None);
    }
    let patch = decode(&response.patch).map_err(|why| CallError::Failed {
        reason: format!("received undecodable patch in webhook response: {why}"),
        code: 503,
    })?;
    if patch.as_list().is_none_or(<[Tree]>::is_empty) {
        return Ok(None);
    }
    if review.object.is_none() {
        let message = format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            webhook.name
        );
        return Err(CallError::Internal(Status::internal(message)));
    }
    if response.patch_type != "JSONPatch" {
        return Err(CallError::Failed {
            reason: format!("unsupported patch type {:?}", response.patch_type),
            code: call::rejection(webhook, response.status).code,
        });
    }
    let internal = |why: String| CallError::Internal(Status::internal(why));
    let mut object = json::parse(&objects.object).map_err(|error| internal(error.to_string()))?;
    patch::apply_json(&mut object, &patch).map_err(|error| internal(error.to_string()))?;
    let changed = object_versions::replace(review, matched, object).map_err(CallError::Internal)?;
    Ok(Some(AppliedPatch { changed, patch }))
}

/// A patch that was applied.
#[derive(Debug)]
pub(super) struct AppliedPatch {
    pub(super) changed: bool,
    pub(super) patch: Tree,
}

/// Decodes a patch: a list of objects.
fn decode(bytes: &[u8]) -> Result<Tree, String> {
    let patch = json::parse(bytes).map_err(|error| error.to_string())?;
    let unexpected = |value: &Tree, expected: &str| {
        let found = value.type_name();
        Err(format!(
            "json: cannot unmarshal {found} into Go value of type jsonpatch.{expected}"
        ))
    };
    match &patch {
        Tree::Null => {}
        Tree::List(operations) => {
            let other = |operation: &&Tree| !matches!(operation, Tree::Map(_) | Tree::Null);
            if let Some(operation) = operations.iter().find(other) {
                return unexpected(operation, "Operation");
            }
        }
        other => return unexpected(other, "Patch"),
    }
    Ok(patch)
}
