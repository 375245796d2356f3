//! Applies the JSON patch of a mutating webhook to the object under review.

use setpoint_api::Status;
use setpoint_api::options::FieldValidation;
use setpoint_codec::{json, strict};
use setpoint_registry_api::Review;
use setpoint_schema::{Tree, patch};
use setpoint_strategy::meta;

use super::call::{self, CallError};
use super::configuration::Webhook;
use super::response::AdmissionResponse;
use crate::matching::MatchedResource;
use crate::object_form::{ObjectForm, VersionedObjects};

/// Applies the patch of a response. Returns whether it has changed the object, and the patch for the audit event.
pub(super) async fn apply(
    review: &mut Review<'_>,
    (webhook, matched): (&Webhook, &MatchedResource),
    objects: &VersionedObjects<Vec<u8>>,
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
    let object = objects.object.as_deref().unwrap_or_default();
    let mut object = json::parse(object).map_err(|error| internal(error.to_string()))?;
    patch::apply_json(&mut object, &patch).map_err(|error| internal(error.to_string()))?;
    let changed = replace(review, matched, object).await;
    let changed = changed.map_err(CallError::Internal)?;
    Ok(Some(AppliedPatch { changed, patch }))
}

/// A patch that was applied.
#[derive(Debug)]
pub(super) struct AppliedPatch {
    pub(super) changed: bool,
    pub(super) patch: Tree,
}

/// Replaces the object under review by a tree in the version of the matched resource: drops unknown fields (of custom
/// objects the registry does, after validating admission), sets defaults and converts it. Returns whether that changes the
/// object.
async fn replace(review: &mut Review<'_>, matched: &MatchedResource, patched: Tree) -> Result<bool, Status> {
    let form = ObjectForm::of(review, matched)?;
    let new = match &form {
        ObjectForm::Body(shape) => {
            let conformed = strict::conform_tree(patched, shape, FieldValidation::Ignore);
            conformed.map_err(|error| Status::internal(error.cause()))?.tree
        }
        ObjectForm::Kind(kind) => {
            let conformed = kind.conform_admitted(patched);
            let mut tree = conformed.map_err(|error| Status::internal(error.cause()))?.tree;
            kind.prepare_input(&mut tree).map_err(Status::internal)?;
            kind.default_for_request(&mut tree, review.facts);
            tree
        }
    };
    let new = form.to_request_version(review, new).await?;
    let Some(object) = review.object.as_deref_mut() else {
        return Ok(false);
    };
    // Where managed fields are tracked, every patch counts as a change: upstream compares their timestamps, which lose
    // their nanoseconds in the JSON that is patched.
    let changes = meta::find(object, "managedFields").is_some() || !object.semantic_eq(&new);
    *object = new;
    Ok(changes)
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
