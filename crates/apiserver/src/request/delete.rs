//! DeleteOptions, from the body or else from the query.

use serde::Deserialize;
use setpoint_api::Payload;
use setpoint_api::call::Encoding;
use setpoint_api::field::Errors;
use setpoint_api::options::{DeleteOptions, DeletionPropagation};
use setpoint_codec::{protobuf, strict};
use setpoint_schema::{Pack, Shape, Tree};

use super::options::{StatusError, bad_request, dry_run, integer, reject_invalid, requested_timeout};
use super::query::Query;

/// The option for deleting objects that can no longer be decoded.
const IGNORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// DeleteOptions as they are in the request, unchecked.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawDeleteOptions {
    api_version: String,
    kind: String,
    grace_period_seconds: Option<i64>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    preconditions: Option<Preconditions>,
    dry_run: Vec<String>,
    #[serde(rename = "ignoreStoreReadErrorWithClusterBreakingPotential")]
    unreadable_only: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// Parses the options. If there is a body, the query is ignored.
pub fn read(query: &Query<'_>, body: Option<&Payload>) -> Result<DeleteOptions, StatusError> {
    let raw = match body {
        Some(payload) => from_body(payload)?,
        None => from_query(query)?,
    };
    let options = checked(raw)?;
    Ok(DeleteOptions {
        timeout: requested_timeout(query),
        ..options
    })
}

/// Parses the options of a deletecollection. An object that cannot be decoded cannot be listed either, so the option
/// for such objects is forbidden here.
pub fn read_collection(query: &Query<'_>, body: Option<&Payload>) -> Result<DeleteOptions, StatusError> {
    let options = read(query, body)?;
    let errors = Errors::default();
    if options.ignore_store_read_error {
        errors.at(IGNORE_READ_ERROR).invalid(
            true,
            "is not allowed with DELETECOLLECTION, try again after removing the option",
        );
    }
    reject_invalid("DeleteOptions", errors)?;
    Ok(options)
}

fn from_body(payload: &Payload) -> Result<RawDeleteOptions, StatusError> {
    let parsed = match payload.encoding {
        Encoding::Json => setpoint_codec::json::parse(&payload.bytes)
            .map_err(|error| bad_request(&format!("couldn't get version/kind; json parse error: {error}"))),
        Encoding::Yaml => setpoint_codec::yaml::parse(&payload.bytes).map_err(|error| bad_request(&error)),
        Encoding::Protobuf => from_message(&payload.bytes).map_err(|error| bad_request(&error)),
    };
    let raw = decode(parsed?)?;
    if !matches!(raw.kind.as_str(), "" | "DeleteOptions") {
        let (kind, version) = (&raw.kind, &raw.api_version);
        return Err(bad_request(&format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
        )));
    }
    Ok(raw)
}

/// Decodes the options, with Kubernetes' errors for fields of another type.
fn decode(options: Tree) -> Result<RawDeleteOptions, StatusError> {
    if options.is_null() {
        return Ok(RawDeleteOptions::default());
    }
    strict::read_type_meta(&options).map_err(|error| bad_request(&error))?;
    let mut pruned = options.clone();
    if let Some(mismatch) = setpoint_schema::prune(shape(), &mut pruned).type_error {
        return Err(bad_request(&mismatch));
    }
    RawDeleteOptions::deserialize(&options).map_err(|error| bad_request(&error))
}

fn shape() -> &'static Shape {
    let shape = Pack::builtin().shape_of("", "v1", "DeleteOptions");
    shape.expect("the pack has the options of a deletion")
}

/// The options of a protobuf envelope, with the envelope's `kind` and `apiVersion`.
fn from_message(bytes: &[u8]) -> Result<Tree, protobuf::Error> {
    let (type_meta, mut tree) = protobuf::decode(bytes, shape())?;
    tree.set(&["kind"], type_meta.kind);
    tree.set(&["apiVersion"], type_meta.api_version);
    Ok(tree)
}

fn from_query(query: &Query<'_>) -> Result<RawDeleteOptions, StatusError> {
    Ok(RawDeleteOptions {
        grace_period_seconds: integer(query, "gracePeriodSeconds")?,
        propagation_policy: query.find("propagationPolicy").map(str::to_owned),
        orphan_dependents: query.flag("orphanDependents"),
        preconditions: preconditions(query),
        dry_run: query.all("dryRun").map(str::to_owned).collect(),
        unreadable_only: query.flag(IGNORE_READ_ERROR),
        ..RawDeleteOptions::default()
    })
}

fn preconditions(query: &Query<'_>) -> Option<Preconditions> {
    let (uid, version) = (query.text("uid"), query.text("resourceVersion"));
    (uid.is_some() || version.is_some()).then(|| Preconditions {
        uid: uid.map(str::to_owned),
        resource_version: version.map(str::to_owned),
    })
}

fn checked(raw: RawDeleteOptions) -> Result<DeleteOptions, StatusError> {
    let errors = Errors::default();
    let propagation = propagation(&raw, &errors.at("propagationPolicy"));
    let dry: Vec<&str> = raw.dry_run.iter().map(String::as_str).collect();
    let dry_run = dry_run(&dry, &errors);
    check_unreadable_only(&raw, &errors.at(IGNORE_READ_ERROR));
    reject_invalid("DeleteOptions", errors)?;
    let preconditions = raw.preconditions.unwrap_or_default();
    Ok(DeleteOptions {
        grace_period_seconds: raw.grace_period_seconds,
        propagation_policy: propagation,
        orphan_dependents: raw.orphan_dependents,
        uid: preconditions.uid,
        resource_version: preconditions.resource_version,
        ignore_store_read_error: raw.unreadable_only.unwrap_or_default(),
        dry_run,
        timeout: None,
    })
}

fn propagation(raw: &RawDeleteOptions, errors: &Errors) -> Option<DeletionPropagation> {
    let policy = raw.propagation_policy.as_deref();
    if let (Some(policy), Some(_)) = (policy, raw.orphan_dependents) {
        errors.invalid(
            policy,
            "orphanDependents and deletionPropagation cannot be both set",
        );
    }
    match (policy, raw.orphan_dependents) {
        (Some("Foreground"), _) => Some(DeletionPropagation::Foreground),
        (Some("Background"), _) | (None, Some(false)) => Some(DeletionPropagation::Background),
        (Some("Orphan"), _) | (None, Some(true)) => Some(DeletionPropagation::Orphan),
        (Some(other), _) => {
            errors.not_supported(other, &["Foreground", "Background", "Orphan", "nil"]);
            None
        }
        (None, None) => None,
    }
}

/// The option for undecodable objects excludes all others.
fn check_unreadable_only(raw: &RawDeleteOptions, errors: &Errors) {
    let others = [
        (raw.propagation_policy.is_some(), "propagationPolicy"),
        (raw.orphan_dependents.is_some(), "orphanDependents"),
        (raw.grace_period_seconds.is_some(), "gracePeriodSeconds"),
        (raw.preconditions.is_some(), "preconditions"),
    ];
    let is_requested = raw.unreadable_only == Some(true);
    for (_, other) in others.iter().filter(|(is_set, _)| is_requested && *is_set) {
        errors.invalid(true, &format!("cannot be set together with .{other}"));
    }
}

#[cfg(test)]
mod tests;
