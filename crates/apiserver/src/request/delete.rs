//! Options of a deletion: in the body, or else in the query.

use serde::Deserialize;
use setpoint_api::Payload;
use setpoint_api::call::Encoding;
use setpoint_api::field::Errors;
use setpoint_api::options::{DeleteOptions, Propagation};
use setpoint_codec::protobuf;
use setpoint_schema::{Pack, Tree};

use super::options::{Refused, bad_request, dry_run, integer, refuse_invalid};
use super::query::Query;

/// The option for objects that nobody can read any more.
const UNREADABLE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// The options object as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Written {
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

/// Reads the options. A body, where there is one, is all that counts.
pub fn read(query: &Query<'_>, body: Option<&Payload>) -> Result<DeleteOptions, Refused> {
    let written = match body {
        Some(payload) => from_body(payload)?,
        None => from_query(query)?,
    };
    checked(written)
}

/// Reads the options of a deletion of many. What cannot be read cannot be listed either, so it goes one by one.
pub fn read_collection(query: &Query<'_>, body: Option<&Payload>) -> Result<DeleteOptions, Refused> {
    let options = read(query, body)?;
    let errors = Errors::default();
    if options.unreadable_only {
        errors.at(UNREADABLE).invalid(
            true,
            "is not allowed with DELETECOLLECTION, try again after removing the option",
        );
    }
    refuse_invalid("DeleteOptions", errors)?;
    Ok(options)
}

fn from_body(payload: &Payload) -> Result<Written, Refused> {
    let parsed = match payload.encoding {
        Encoding::Json => setpoint_codec::json::parse(&payload.bytes)
            .map_err(|error| bad_request(&format!("couldn't get version/kind; json parse error: {error}"))),
        Encoding::Yaml => setpoint_codec::yaml::parse(&payload.bytes).map_err(|error| bad_request(&error)),
        Encoding::Protobuf => from_message(&payload.bytes).map_err(|error| bad_request(&error)),
    };
    let written = Written::deserialize(&parsed?).map_err(|error| bad_request(&error))?;
    if !matches!(written.kind.as_str(), "" | "DeleteOptions") {
        let (kind, version) = (&written.kind, &written.api_version);
        return Err(bad_request(&format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
        )));
    }
    Ok(written)
}

/// The options out of an envelope, with the type fields it gives them.
fn from_message(bytes: &[u8]) -> Result<Tree, protobuf::Error> {
    let shape = Pack::builtin()
        .shape_of("", "v1", "DeleteOptions")
        .expect("the pack has the options of a deletion");
    let (type_meta, mut tree) = protobuf::decode(bytes, shape)?;
    tree.set(&["kind"], type_meta.kind);
    tree.set(&["apiVersion"], type_meta.api_version);
    Ok(tree)
}

fn from_query(query: &Query<'_>) -> Result<Written, Refused> {
    Ok(Written {
        grace_period_seconds: integer(query, "gracePeriodSeconds")?,
        propagation_policy: query.find("propagationPolicy").map(str::to_owned),
        orphan_dependents: query.flag("orphanDependents"),
        preconditions: preconditions(query),
        dry_run: query.all("dryRun").map(str::to_owned).collect(),
        unreadable_only: query.flag(UNREADABLE),
        ..Written::default()
    })
}

fn preconditions(query: &Query<'_>) -> Option<Preconditions> {
    let (uid, version) = (query.text("uid"), query.text("resourceVersion"));
    (uid.is_some() || version.is_some()).then(|| Preconditions {
        uid: uid.map(str::to_owned),
        resource_version: version.map(str::to_owned),
    })
}

fn checked(written: Written) -> Result<DeleteOptions, Refused> {
    let errors = Errors::default();
    let propagation = propagation(&written, &errors.at("propagationPolicy"));
    let dry: Vec<&str> = written.dry_run.iter().map(String::as_str).collect();
    let dry_run = dry_run(&dry, &errors);
    check_unreadable_only(&written, &errors.at(UNREADABLE));
    refuse_invalid("DeleteOptions", errors)?;
    let preconditions = written.preconditions.unwrap_or_default();
    Ok(DeleteOptions {
        grace_period_seconds: written.grace_period_seconds,
        propagation,
        uid: preconditions.uid,
        resource_version: preconditions.resource_version,
        unreadable_only: written.unreadable_only.unwrap_or_default(),
        dry_run,
    })
}

fn propagation(written: &Written, errors: &Errors) -> Option<Propagation> {
    let policy = written.propagation_policy.as_deref();
    if let (Some(policy), Some(_)) = (policy, written.orphan_dependents) {
        errors.invalid(
            policy,
            "orphanDependents and deletionPropagation cannot be both set",
        );
    }
    match (policy, written.orphan_dependents) {
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (Some(other), _) => {
            errors.not_supported(other, &["Foreground", "Background", "Orphan", "nil"]);
            None
        }
        (None, None) => None,
    }
}

/// Of an object that cannot be read nothing else can be asked.
fn check_unreadable_only(written: &Written, errors: &Errors) {
    let others = [
        (written.propagation_policy.is_some(), "propagationPolicy"),
        (written.orphan_dependents.is_some(), "orphanDependents"),
        (written.grace_period_seconds.is_some(), "gracePeriodSeconds"),
        (written.preconditions.is_some(), "preconditions"),
    ];
    let wanted = written.unreadable_only == Some(true);
    for (_, other) in others.iter().filter(|(is_set, _)| wanted && *is_set) {
        errors.invalid(true, &format!("cannot be set together with .{other}"));
    }
}

#[cfg(test)]
mod tests;
