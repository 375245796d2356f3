//! The rules of metadata, which all kinds share.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use setpoint_api::field::Errors;

use crate::shared::name::{self, Complaints};
use crate::strategy::{NameRule, Scope};

const ANNOTATIONS_BYTES: usize = 256 * 1024;
/// Finalizers without a domain in their name.
const FINALIZERS: &[&str] = &["foregroundDeletion", "orphan", "kubernetes"];

/// Reports what is wrong with an object's metadata.
pub fn validate(meta: &ObjectMeta, scope: Scope, rule: NameRule, errors: &Errors<'_>) {
    validate_names(meta, scope, rule, errors);
    if let Some(generation) = meta.generation.filter(|generation| *generation < 0) {
        errors
            .at("generation")
            .invalid(generation, "must be greater than or equal to 0");
    }
    validate_labels(meta.labels.as_ref(), &errors.at("labels"));
    validate_annotations(meta.annotations.as_ref(), &errors.at("annotations"));
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    validate_owners(owners, &errors.at("ownerReferences"));
    for (at, finalizer) in meta.finalizers.iter().flatten().enumerate() {
        validate_finalizer(finalizer, &errors.at("finalizers").index(at));
    }
}

/// Reports what may not follow from the metadata before.
pub fn validate_update(meta: &ObjectMeta, old: &ObjectMeta, errors: &Errors<'_>) {
    if old.deletion_timestamp.is_some() {
        validate_no_new_finalizers(meta, old, errors);
    }
    let field = |name: &str, new: &Option<String>, old: &Option<String>| {
        if new != old {
            let new = new.as_deref().unwrap_or_default();
            errors.at(name).invalid(new, "field is immutable");
        }
    };
    field("name", &meta.name, &old.name);
    field("namespace", &meta.namespace, &old.namespace);
    field("uid", &meta.uid, &old.uid);
    if meta.creation_timestamp != old.creation_timestamp {
        errors
            .at("creationTimestamp")
            .invalid(&meta.creation_timestamp, "field is immutable");
    }
    if meta.deletion_timestamp != old.deletion_timestamp {
        errors
            .at("deletionTimestamp")
            .invalid(&meta.deletion_timestamp, "field is immutable");
    }
    if meta.deletion_grace_period_seconds != old.deletion_grace_period_seconds {
        errors
            .at("deletionGracePeriodSeconds")
            .invalid(meta.deletion_grace_period_seconds, "field is immutable");
    }
}

/// Reports labels that are none.
pub fn validate_labels(labels: Option<&BTreeMap<String, String>>, errors: &Errors<'_>) {
    for (label, value) in labels.into_iter().flatten() {
        name::report(label, name::qualified(label), errors);
        name::report(value, name::label_value(value), errors);
    }
}

/// Reports annotations that are none, or too many bytes of them.
pub fn validate_annotations(annotations: Option<&BTreeMap<String, String>>, errors: &Errors<'_>) {
    let mut bytes = 0;
    for (key, value) in annotations.into_iter().flatten() {
        // The rule is about the key whatever its case.
        name::report(key, name::qualified(&key.to_lowercase()), errors);
        bytes += key.len() + value.len();
    }
    if bytes > ANNOTATIONS_BYTES {
        errors.too_long(ANNOTATIONS_BYTES);
    }
}

/// Reports a finalizer that has no domain and is none of the known ones.
pub fn validate_finalizer(finalizer: &str, errors: &Errors<'_>) {
    name::report(finalizer, name::qualified(finalizer), errors);
    if !finalizer.contains('/') && !FINALIZERS.contains(&finalizer) {
        errors.invalid(
            finalizer,
            "name is neither a standard finalizer name nor is it fully qualified",
        );
    }
}

fn validate_names(meta: &ObjectMeta, scope: Scope, rule: NameRule, errors: &Errors<'_>) {
    let generate_name = meta.generate_name.as_deref().unwrap_or_default();
    if !generate_name.is_empty() {
        let complaints = check_name(rule, &masked(generate_name));
        name::report(generate_name, complaints, &errors.at("generateName"));
    }
    let own = meta.name.as_deref().unwrap_or_default();
    if own.is_empty() {
        errors.at("name").required("name or generateName is required");
    } else {
        name::report(own, check_name(rule, own), &errors.at("name"));
    }
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    match scope {
        Scope::Namespaced if namespace.is_empty() => errors.at("namespace").required(""),
        Scope::Namespaced => {
            name::report(namespace, name::label(namespace), &errors.at("namespace"));
        }
        Scope::Cluster if !namespace.is_empty() => {
            errors.at("namespace").forbidden("not allowed on this type")
        }
        Scope::Cluster => {}
    }
}

fn check_name(rule: NameRule, text: &str) -> Complaints {
    match rule {
        NameRule::Subdomain => name::subdomain(text),
        NameRule::Label => name::label(text),
        NameRule::PathSegment => name::path_segment(text),
    }
}

/// A prefix may end in a dash, since more is to follow.
fn masked(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => format!("{rest}a"),
        _ => prefix.to_owned(),
    }
}

fn validate_owners(owners: &[OwnerReference], errors: &Errors<'_>) {
    for (at, owner) in owners.iter().enumerate() {
        validate_owner(owner, &errors.index(at));
    }
    let mut controllers = owners.iter().filter(|owner| owner.controller == Some(true));
    if let (Some(first), Some(second)) = (controllers.next(), controllers.next()) {
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {}/{} and {}/{}",
            first.kind, first.name, second.kind, second.name
        );
        let shown: Vec<Shown<'_>> = owners.iter().map(Shown::from).collect();
        errors.invalid(shown, &detail);
    }
}

fn validate_owner(owner: &OwnerReference, errors: &Errors<'_>) {
    for (field, value) in [
        ("apiVersion", &owner.api_version),
        ("kind", &owner.kind),
        ("name", &owner.name),
        ("uid", &owner.uid),
    ] {
        if value.is_empty() {
            errors.at(field).required("must not be empty");
        }
    }
    if owner.kind == "Event" && owner.api_version == "v1" {
        errors.invalid(
            Shown::from(owner),
            "/v1, Kind=Event is disallowed from being an owner",
        );
    }
}

fn validate_no_new_finalizers(meta: &ObjectMeta, old: &ObjectMeta, errors: &Errors<'_>) {
    let known: BTreeSet<&String> = old.finalizers.iter().flatten().collect();
    let new: BTreeSet<&String> = meta.finalizers.iter().flatten().collect();
    let added: Vec<String> = new
        .difference(&known)
        .map(|finalizer| format!("{finalizer:?}"))
        .collect();
    if !added.is_empty() {
        errors.at("finalizers").forbidden(&format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        ));
    }
}

/// An owner as messages show it.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    uid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_owner_deletion: Option<bool>,
}

impl<'a> From<&'a OwnerReference> for Shown<'a> {
    fn from(owner: &'a OwnerReference) -> Self {
        Self {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            controller: owner.controller,
            block_owner_deletion: owner.block_owner_deletion,
        }
    }
}
