//! The requests and responses of webhooks.
//!
//! Formats: `admission.k8s.io/v1` and `apiextensions.k8s.io/v1`, each a review that has a request on the way in and a
//! response on the way out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authentication::v1::UserInfo;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use setpoint_api::Status;

use super::json_patch::diff;

/// A write request to be admitted (`admission.k8s.io/v1`).
#[derive(Debug, Clone)]
pub struct AdmissionRequest<T> {
    /// The operation.
    pub operation: Operation,
    /// The object as it would be; absent for a deletion.
    pub object: Option<T>,
    /// The object as it is; absent for a creation.
    pub old: Option<T>,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty if the server generates the name.
    pub name: String,
    /// The subresource, if any.
    pub subresource: Option<String>,
    /// The requesting user.
    pub user: UserInfo,
    /// Whether it is a dry run. Then the webhook must have no side effects.
    pub dry_run: bool,
}

/// The operation of an admission request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// Creates an object.
    Create,
    /// Updates an object.
    Update,
    /// Deletes an object.
    Delete,
    /// Connects to an object, as `exec` does.
    Connect,
}

/// The response to an allowed request.
#[derive(Debug, Clone, Default)]
pub(super) struct AllowedResponse {
    pub(super) warnings: Vec<String>,
    /// The object before and after, from a mutating webhook.
    pub(super) changed: Option<(Value, Value)>,
}

/// A review as received.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Review<R> {
    #[serde(default)]
    pub(super) api_version: String,
    #[serde(default)]
    pub(super) kind: String,
    pub(super) request: R,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawAdmissionRequest {
    pub(super) uid: String,
    operation: Operation,
    #[serde(default)]
    object: Value,
    #[serde(default)]
    old_object: Value,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    sub_resource: Option<String>,
    #[serde(default)]
    user_info: UserInfo,
    #[serde(default)]
    dry_run: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConversionRequest {
    pub(super) uid: String,
    #[serde(rename = "desiredAPIVersion")]
    pub(super) desired: String,
    #[serde(default)]
    pub(super) objects: Vec<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReviewResponse<R> {
    api_version: String,
    kind: String,
    response: R,
}

// === impl RawAdmissionRequest ===

impl RawAdmissionRequest {
    /// The request with its objects decoded as a `T`.
    pub(super) fn read<T: DeserializeOwned>(self) -> Result<AdmissionRequest<T>, Status> {
        Ok(AdmissionRequest {
            operation: self.operation,
            object: object(self.object)?,
            old: object(self.old_object)?,
            namespace: self.namespace,
            name: self.name,
            subresource: self.sub_resource.filter(|sub| !sub.is_empty()),
            user: self.user_info,
            dry_run: self.dry_run.unwrap_or(false),
        })
    }
}

fn object<T: DeserializeOwned>(value: Value) -> Result<Option<T>, Status> {
    if value.is_null() {
        return Ok(None);
    }
    let read = serde_json::from_value(value);
    read.map(Some)
        .map_err(|error| Status::bad_request(format!("cannot decode the object: {error}")))
}

/// The response to an AdmissionReview.
pub(super) fn admission_response(
    review: (&str, &str),
    uid: &str,
    outcome: Result<AllowedResponse, Status>,
) -> Result<Vec<u8>, String> {
    let response = match outcome {
        Err(status) => json!({"uid": uid, "allowed": false, "status": status}),
        Ok(passed) => {
            let mut response = json!({"uid": uid, "allowed": true});
            if !passed.warnings.is_empty() {
                response["warnings"] = json!(passed.warnings);
            }
            let patch = passed.changed.map(|(before, after)| diff(&before, &after));
            if let Some(patch) = patch.filter(|patch| !patch.is_empty()) {
                response["patchType"] = json!("JSONPatch");
                response["patch"] = json!(STANDARD.encode(Value::from(patch).to_string()));
            }
            response
        }
    };
    encode_review(review, response)
}

/// The response to a ConversionReview.
pub(super) fn conversion_response(
    review: (&str, &str),
    uid: &str,
    outcome: Result<Vec<Value>, String>,
) -> Result<Vec<u8>, String> {
    let response = match outcome {
        Ok(objects) => json!({"uid": uid, "convertedObjects": objects, "result": {"status": "Success"}}),
        Err(message) => json!({
            "uid": uid, "convertedObjects": [], "result": {"status": "Failure", "message": message},
        }),
    };
    encode_review(review, response)
}

fn encode_review(review: (&str, &str), response: Value) -> Result<Vec<u8>, String> {
    let response = ReviewResponse {
        api_version: review.0.to_owned(),
        kind: review.1.to_owned(),
        response,
    };
    setpoint_api::json::to_vec(&response).map_err(|error| error.to_string())
}
