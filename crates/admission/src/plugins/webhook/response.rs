//! The response of a webhook: its AdmissionReview, verified.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use setpoint_api::Status;
use setpoint_codec::{json, yaml};
use setpoint_schema::Tree;
use setpoint_schema::tree::from_tree;

use super::configuration::ReviewVersion;

const GROUP: &str = "admission.k8s.io";
const KIND: &str = "AdmissionReview";

/// The type in Go of `kind` and `apiVersion`.
const TYPE_META: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// The verified response of a webhook.
#[derive(Debug)]
pub(super) struct AdmissionResponse {
    pub(super) allowed: bool,
    pub(super) status: Option<Status>,
    pub(super) patch: Vec<u8>,
    pub(super) patch_type: String,
    pub(super) audit_annotations: BTreeMap<String, String>,
    pub(super) warnings: Vec<String>,
}

/// The fields of an AdmissionReview in a response.
#[derive(Debug)]
struct ReviewFields {
    kind: String,
    api_version: String,
    response: Option<ResponseFields>,
}

#[derive(Debug)]
struct ResponseFields {
    uid: String,
    allowed: bool,
    status: Option<Status>,
    patch: Vec<u8>,
    patch_type: Option<String>,
    audit_annotations: BTreeMap<String, String>,
    warnings: Vec<String>,
}

/// Parses the body of a response, as Kubernetes' decoder: JSON, or else YAML.
fn parse(body: &[u8], version: ReviewVersion) -> Result<ReviewFields, String> {
    let not_typed = |error: String| format!("couldn't get version/kind; json parse error: {error}");
    let is_json = body.trim_ascii_start().starts_with(b"{");
    let tree = match is_json {
        true => json::parse(body).map_err(|error| not_typed(error.to_string()))?,
        false => yaml::parse(body).map_err(|error| not_typed(error.to_string()))?,
    };
    if tree.as_map().is_none() {
        let found = tree.type_name();
        return Err(not_typed(format!(
            "json: cannot unmarshal {found} into Go value of type {TYPE_META}"
        )));
    }
    let text = |field: &str| tree.str_at(&[field]).unwrap_or_default().to_owned();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    check_type(&kind, &api_version, version)?;
    let response = tree.get("response").filter(|response| !response.is_null());
    Ok(ReviewFields {
        kind,
        api_version,
        response: response.map(ResponseFields::parse).transpose()?,
    })
}

/// Rejects objects of other kinds. One without a kind is read as an AdmissionReview.
fn check_type(kind: &str, api_version: &str, version: ReviewVersion) -> Result<(), String> {
    let is_review = kind == KIND && matches!(api_version, "admission.k8s.io/v1" | "admission.k8s.io/v1beta1");
    let (_, own) = api_version.split_once('/').unwrap_or_default();
    match kind.is_empty() || api_version.is_empty() {
        true => Ok(()),
        false if is_review && own == version.name() => Ok(()),
        false if is_review => {
            let expected = version.name();
            Err(format!(
                "converting ({own}.{KIND}) to ({expected}.{KIND}): unknown conversion"
            ))
        }
        false => Err(format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"k8s.io/apiserver/pkg/util/webhook/client.go:74\""
        )),
    }
}

impl ResponseFields {
    fn parse(response: &Tree) -> Result<Self, String> {
        let field = |name: &str| response.get(name).filter(|value| !value.is_null());
        let text = |name: &str| {
            field(name)
                .map(|value| typed(value.as_str(), value, name, "string"))
                .transpose()
        };
        let allowed = field("allowed").map(|value| typed(value.as_bool(), value, "allowed", "bool"));
        let patch = text("patch")?.unwrap_or_default();
        let status = field("status").map(from_tree::<Status>).transpose();
        Ok(Self {
            uid: text("uid")?.unwrap_or_default().to_owned(),
            allowed: allowed.transpose()?.unwrap_or_default(),
            status: status.map_err(|error| error.to_string())?,
            patch: STANDARD.decode(patch).map_err(|error| base64_text(&error))?,
            patch_type: text("patchType")?.map(str::to_owned),
            audit_annotations: annotations(field("auditAnnotations"))?,
            warnings: warnings(field("warnings"))?,
        })
    }
}

fn annotations(value: Option<&Tree>) -> Result<BTreeMap<String, String>, String> {
    const NAME: &str = "auditAnnotations";
    let Some(value) = value else {
        return Ok(BTreeMap::new());
    };
    let map = typed(value.as_map(), value, NAME, "map[string]string")?;
    let entry = |(key, value): (&str, &Tree)| {
        let text = typed(value.as_str(), value, NAME, "string")?;
        Ok((key.to_owned(), text.to_owned()))
    };
    map.iter().map(entry).collect()
}

fn warnings(value: Option<&Tree>) -> Result<Vec<String>, String> {
    const NAME: &str = "warnings";
    let Some(value) = value else {
        return Ok(Vec::new());
    };
    let list = typed(value.as_list(), value, NAME, "[]string")?;
    let text = |value: &Tree| typed(value.as_str(), value, NAME, "string").map(str::to_owned);
    list.iter().map(text).collect()
}

/// The value of a field, or Go's error if it has another type.
fn typed<T>(value: Option<T>, found: &Tree, field: &str, expected: &str) -> Result<T, String> {
    value.ok_or_else(|| {
        let found = found.type_name();
        format!("json: cannot unmarshal {found} into Go struct field AdmissionResponse.response.{field} of type {expected}")
    })
}

fn base64_text(error: &base64::DecodeError) -> String {
    let at = match error {
        base64::DecodeError::InvalidByte(at, _) => *at,
        _ => 0,
    };
    format!("illegal base64 data at input byte {at}")
}

/// Why a response is not accepted.
#[derive(Debug)]
pub(super) enum ResponseError {
    /// The body is no AdmissionReview.
    Undecodable(String),
    /// The AdmissionReview is not a valid response to the request.
    Invalid(String),
}

/// Parses and verifies the response to a request of this uid.
pub(super) fn read(
    body: &[u8],
    version: ReviewVersion,
    uid: &str,
    is_mutating: bool,
) -> Result<AdmissionResponse, ResponseError> {
    let review = parse(body, version).map_err(ResponseError::Undecodable)?;
    let (kind, api_version) = (review.kind, review.api_version);
    let invalid = |why: &str| Err(ResponseError::Invalid(why.to_owned()));
    let Some(response) = review.response else {
        return invalid("webhook response was absent");
    };
    let mut patch_type = response.patch_type.clone().unwrap_or_default();
    if version == ReviewVersion::V1 {
        verify_type(uid, &response, &kind, &api_version).map_err(ResponseError::Invalid)?;
        verify_patch(is_mutating, &response.patch, response.patch_type.as_deref())
            .map_err(ResponseError::Invalid)?;
    } else if !response.patch.is_empty() {
        // v1beta1 does not require a type, and there has never been another one.
        patch_type = "JSONPatch".to_owned();
    }
    Ok(AdmissionResponse {
        allowed: response.allowed,
        status: response.status,
        patch: response.patch,
        patch_type,
        audit_annotations: response.audit_annotations,
        warnings: response.warnings,
    })
}

fn verify_type(uid: &str, response: &ResponseFields, kind: &str, api_version: &str) -> Result<(), String> {
    if response.uid != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", response.uid));
    }
    let expected = format!("{GROUP}/v1");
    if (kind, api_version) == (KIND, expected.as_str()) {
        return Ok(());
    }
    let version = if api_version.contains('/') {
        api_version.to_owned()
    } else {
        format!("/{api_version}")
    };
    Err(format!(
        "expected webhook response of {expected}, Kind={KIND}, got {version}, Kind={kind}"
    ))
}

fn verify_patch(is_mutating: bool, patch: &[u8], patch_type: Option<&str>) -> Result<(), String> {
    let why = match (is_mutating, patch.is_empty(), patch_type) {
        (true, false, None) => "webhook returned response.patch but not response.patchType",
        (true, true, Some(_)) => "webhook returned response.patchType but not response.patch",
        (true, _, Some("")) => "webhook returned invalid response.patchType of \"\"",
        (false, false, _) => "validating webhook may not return response.patch",
        (false, _, Some(_)) => "validating webhook may not return response.patchType",
        _ => return Ok(()),
    };
    Err(why.to_owned())
}
