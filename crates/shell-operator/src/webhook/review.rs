//! Reviews: the requests that the API server sends, and the responses that hooks write.
//!
//! Formats: `admission.k8s.io/v1` and `apiextensions.k8s.io/v1`, with objects as they were sent; the files of hooks are
//! those of shell-operator.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// An AdmissionReview as received.
#[derive(Debug)]
pub(crate) struct Review {
    envelope: Envelope,
    uid: String,
    /// The request, in JSON.
    pub(crate) request: Arc<str>,
}

/// A ConversionReview as received.
#[derive(Debug)]
pub(crate) struct ConversionReview {
    envelope: Envelope,
    pub(crate) request: ConversionRequest,
}

/// The request of a ConversionReview. Its objects change from step to step.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ConversionRequest {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    pub(crate) desired_version: String,
    #[serde(default)]
    pub(crate) objects: Vec<Box<RawValue>>,
}

/// What a hook has written for reviews; absent if its file is empty.
#[derive(Debug, Default)]
pub(crate) struct HookResponses {
    pub(crate) admission: Option<AdmissionResponse>,
    pub(crate) conversion: Option<ConversionResponse>,
}

/// The response of a hook to an AdmissionReview.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct AdmissionResponse {
    #[serde(default)]
    pub(crate) allowed: bool,
    #[serde(default)]
    pub(crate) message: Option<String>,
    #[serde(default)]
    pub(crate) warnings: Option<Vec<String>>,
    /// A JSON patch in base64.
    #[serde(default)]
    pub(crate) patch: Option<String>,
}

/// The response of a hook to a ConversionReview.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConversionResponse {
    #[serde(default)]
    pub(crate) failed_message: Option<String>,
    #[serde(default)]
    pub(crate) converted_objects: Option<Vec<Box<RawValue>>>,
}

/// Version and kind of a review; the response has the same.
#[derive(Debug)]
struct Envelope {
    api_version: String,
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawReview {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct RequestUid {
    #[serde(default)]
    uid: String,
}

/// The version of an object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectVersion {
    #[serde(default)]
    api_version: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReviewResponse<'a, R> {
    api_version: &'a str,
    kind: &'a str,
    response: R,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionOutcome<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConversionOutcome<'a> {
    uid: &'a str,
    converted_objects: &'a [Box<RawValue>],
    result: Value,
}

// === impl Review ===

impl Review {
    /// Reads a review. The error is for the sender.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, String> {
        let (envelope, request) = parse_review(body)?;
        let RequestUid { uid } = serde_json::from_str(request.get()).map_err(invalid)?;
        Ok(Self {
            envelope,
            uid,
            request: request.get().into(),
        })
    }

    /// The review with the response of a hook.
    pub(crate) fn respond(&self, response: &AdmissionResponse) -> Result<Vec<u8>, String> {
        let patch = response.patch.as_deref().filter(|patch| !patch.is_empty());
        let message = response.message.as_deref().unwrap_or_default();
        let outcome = AdmissionOutcome {
            uid: &self.uid,
            allowed: response.allowed,
            status: (!response.allowed).then(|| json!({"metadata": {}, "message": message, "code": 403})),
            patch,
            patch_type: patch.map(|_| "JSONPatch"),
            warnings: response.warnings.as_deref().unwrap_or_default(),
        };
        encode(&self.envelope, outcome)
    }

    /// The review with an error of this program.
    pub(crate) fn fail(&self, message: &str) -> Result<Vec<u8>, String> {
        let outcome = AdmissionOutcome {
            uid: &self.uid,
            allowed: false,
            status: Some(json!({"metadata": {}, "message": message, "code": 500})),
            patch: None,
            patch_type: None,
            warnings: &[],
        };
        encode(&self.envelope, outcome)
    }
}

// === impl ConversionReview ===

impl ConversionReview {
    /// Reads a review. The error is for the sender.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, String> {
        let (envelope, request) = parse_review(body)?;
        let request = serde_json::from_str(request.get()).map_err(invalid)?;
        Ok(Self { envelope, request })
    }

    /// The review with the converted objects, or with the reason why there are none.
    pub(crate) fn respond(&self, outcome: Result<&[Box<RawValue>], &str>) -> Result<Vec<u8>, String> {
        let response = ConversionOutcome {
            uid: &self.request.uid,
            converted_objects: outcome.unwrap_or_default(),
            result: match outcome {
                Ok(_) => json!({"metadata": {}, "status": "Success"}),
                Err(message) => json!({"metadata": {}, "status": "Failure", "message": message}),
            },
        };
        encode(&self.envelope, response)
    }
}

impl ConversionRequest {
    /// The versions of the objects, each once, in the order of the objects.
    pub(crate) fn versions(&self) -> Vec<String> {
        let mut versions = Vec::new();
        for object in &self.objects {
            let version = serde_json::from_str(object.get());
            let ObjectVersion { api_version } = version.unwrap_or(ObjectVersion {
                api_version: String::new(),
            });
            if !versions.contains(&api_version) {
                versions.push(api_version);
            }
        }
        versions
    }

    /// The request in JSON, as hooks get it.
    pub(crate) fn to_json(&self) -> Result<Arc<str>, String> {
        let json = serde_json::to_string(self);
        json.map(Arc::from).map_err(|error| error.to_string())
    }
}

// === impl HookResponses ===

impl HookResponses {
    /// Reads the files that a hook has written.
    pub(crate) fn parse(admission: &[u8], conversion: &[u8]) -> Result<Self, String> {
        Ok(Self {
            admission: parse_file(admission)
                .map_err(|error| format!("got bad validating response: {error}"))?,
            conversion: parse_file(conversion)
                .map_err(|error| format!("got bad conversion response: {error}"))?,
        })
    }
}

/// The first JSON object of a file; `None` for an empty file.
fn parse_file<T: DeserializeOwned>(bytes: &[u8]) -> Result<Option<T>, serde_json::Error> {
    // A derived decoder would also accept a list of the fields.
    if bytes.trim_ascii_start().first().is_some_and(|byte| *byte != b'{') {
        return Err(serde::de::Error::custom("it is no JSON object"));
    }
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter();
    values.next().transpose()
}

fn parse_review(body: &[u8]) -> Result<(Envelope, Box<RawValue>), String> {
    let RawReview {
        api_version,
        kind,
        request,
    } = serde_json::from_slice(body).map_err(invalid)?;
    let request = request.ok_or_else(|| "Missing parameters: request".to_owned())?;
    Ok((Envelope { api_version, kind }, request))
}

fn encode(envelope: &Envelope, response: impl Serialize) -> Result<Vec<u8>, String> {
    let Envelope { api_version, kind } = envelope;
    let review = ReviewResponse {
        api_version,
        kind,
        response,
    };
    serde_json::to_vec(&review).map_err(|error| error.to_string())
}

fn invalid(error: serde_json::Error) -> String {
    tracing::error!(%error, "cannot decode a review");
    "Invalid JSON payload".to_owned()
}

#[cfg(test)]
mod tests;
