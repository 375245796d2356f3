//! What a server asks of a webhook, and what it is answered.
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

use super::difference::difference;

/// A write that somebody wants to make, for a webhook to judge.
#[derive(Debug, Clone)]
pub struct Asked<T> {
    /// What is to be done.
    pub operation: Operation,
    /// The object as it would be; absent for a deletion.
    pub object: Option<T>,
    /// The object as it is; absent for a creation.
    pub old: Option<T>,
    /// Empty for objects of the whole cluster.
    pub namespace: String,
    /// Empty where the server is to find one.
    pub name: String,
    /// Which part of the object, if not all of it.
    pub subresource: Option<String>,
    /// Who wants it.
    pub user: UserInfo,
    /// Whether it is only asked what would come of it. Then nothing may be changed elsewhere.
    pub dry_run: bool,
}

/// What is to be done with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// A new one.
    Create,
    /// Another state of one that is there.
    Update,
    /// Its end.
    Delete,
    /// A line to it, as a shell has one.
    Connect,
}

/// What a webhook says to a write that it lets pass.
#[derive(Debug, Clone, Default)]
pub(super) struct Passed {
    pub(super) warnings: Vec<String>,
    /// The object before and after, where it was changed.
    pub(super) changed: Option<(Value, Value)>,
}

/// A review as it comes.
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
pub(super) struct Admission {
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
pub(super) struct Conversion {
    pub(super) uid: String,
    #[serde(rename = "desiredAPIVersion")]
    pub(super) desired: String,
    #[serde(default)]
    pub(super) objects: Vec<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answered<R> {
    api_version: String,
    kind: String,
    response: R,
}

// === impl Admission ===

impl Admission {
    /// The write, with its objects as what they should be.
    pub(super) fn read<T: DeserializeOwned>(self) -> Result<Asked<T>, Status> {
        Ok(Asked {
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

/// The answer to an admission review.
pub(super) fn admitted(
    review: (&str, &str),
    uid: &str,
    outcome: Result<Passed, Status>,
) -> Result<Vec<u8>, String> {
    let response = match outcome {
        Err(status) => json!({"uid": uid, "allowed": false, "status": status}),
        Ok(passed) => {
            let mut response = json!({"uid": uid, "allowed": true});
            if !passed.warnings.is_empty() {
                response["warnings"] = json!(passed.warnings);
            }
            let patch = passed.changed.map(|(before, after)| difference(&before, &after));
            if let Some(patch) = patch.filter(|patch| !patch.is_empty()) {
                response["patchType"] = json!("JSONPatch");
                response["patch"] = json!(STANDARD.encode(Value::from(patch).to_string()));
            }
            response
        }
    };
    answered(review, response)
}

/// The answer to a conversion review.
pub(super) fn converted(
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
    answered(review, response)
}

fn answered(review: (&str, &str), response: Value) -> Result<Vec<u8>, String> {
    let answered = Answered {
        api_version: review.0.to_owned(),
        kind: review.1.to_owned(),
        response,
    };
    serde_json::to_vec(&answered).map_err(|error| error.to_string())
}
