//! Validation of object metadata, which all kinds share, and accessors to read and write it in a tree.

use std::collections::BTreeSet;

use jiff::Timestamp;

use setpoint_schema::time::{Precision, from_unix};
use setpoint_schema::{Tree, fields};

use crate::field::FieldRef;
use crate::ip;
use crate::kind::InvalidObject;
use crate::name::{self, Violations};
use crate::strategy::{NameRule, Scope};

const ANNOTATIONS_BYTES: usize = 256 * 1024;
/// Finalizers without a domain in their name.
const FINALIZERS: &[&str] = &["foregroundDeletion", "orphan", "kubernetes"];

// === reading and writing ===

/// A string field of the metadata; empty if absent.
pub fn str<'a>(object: &'a Tree, field: &str) -> &'a str {
    object.str_at(&[fields::METADATA, field]).unwrap_or_default()
}

/// An integer field of the metadata; zero if absent.
pub fn int(object: &Tree, field: &str) -> i64 {
    find(object, field).and_then(Tree::as_i64).unwrap_or_default()
}

/// A timestamp field of the metadata.
pub fn time(object: &Tree, field: &str) -> Option<Timestamp> {
    str(object, field).parse().ok()
}

/// A field of the metadata.
pub fn find<'a>(object: &'a Tree, field: &str) -> Option<&'a Tree> {
    object
        .at(&[fields::METADATA, field])
        .filter(|value| !value.is_null())
}

/// The object's name; empty if it has none yet.
pub fn name(object: &Tree) -> &str {
    str(object, fields::NAME)
}

/// The value of a label or an annotation, by `field`.
pub fn entry<'a>(object: &'a Tree, field: &str, key: &str) -> Option<&'a str> {
    find(object, field)?.get(key)?.as_str()
}

/// Sets a field of the metadata.
pub fn set(object: &mut Tree, field: &str, value: impl Into<Tree>) {
    object.set(&[fields::METADATA, field], value);
}

/// Removes a field of the metadata.
pub fn clear(object: &mut Tree, field: &str) {
    object.take(&[fields::METADATA, field]);
}

/// The object with its managed fields, which are given as JSON.
pub fn with_managed_fields(object: &Tree, managed_fields: &[u8]) -> Result<Tree, InvalidObject> {
    let parsed = setpoint_codec::json::parse(managed_fields);
    let parsed = parsed.map_err(|error| InvalidObject::Malformed(error.to_string()))?;
    let mut object = object.clone();
    set(&mut object, fields::MANAGED_FIELDS, parsed);
    Ok(object)
}

/// Removes fields of the metadata.
pub fn clear_all(object: &mut Tree, removed: &[&str]) {
    if let Some(metadata) = object.get_mut(fields::METADATA).and_then(Tree::as_map_mut) {
        metadata.retain(|field, _| !removed.contains(&field));
    }
}

/// Copies a field of the metadata from another object.
pub fn copy(object: &mut Tree, other: &Tree, field: &str) {
    match find(other, field) {
        Some(value) => set(object, field, value.clone()),
        None => clear(object, field),
    }
}

/// Keeps the metadata fields that a status update may not change, for kinds that restrict it.
pub fn keep_for_status(object: &mut Tree, old: &Tree) {
    for field in [
        fields::DELETION_TIMESTAMP,
        fields::GENERATION,
        fields::SELF_LINK,
        fields::LABELS,
        fields::ANNOTATIONS,
        fields::FINALIZERS,
        fields::OWNER_REFERENCES,
    ] {
        copy(object, old, field);
    }
}

/// A timestamp as metadata has it, in whole seconds.
pub fn timestamp(time: Timestamp) -> Tree {
    let text = from_unix(time.as_second(), 0, Precision::Seconds);
    Tree::from(text.unwrap_or_default())
}

/// Whether the object is being deleted.
pub fn is_deleting(object: &Tree) -> bool {
    find(object, fields::DELETION_TIMESTAMP).is_some()
}

// === rules ===

/// Validates an object's metadata.
pub fn validate(meta: &FieldRef<'_>, scope: Scope, rule: NameRule) {
    validate_names(meta, scope, rule);
    validate_common(meta);
    validate_finalizers(&meta.at(fields::FINALIZERS));
}

/// Validates the fields to which creates and updates apply the same rules.
pub fn validate_common(meta: &FieldRef<'_>) {
    meta.at(fields::GENERATION).not_negative();
    validate_labels(&meta.at(fields::LABELS));
    validate_annotations(&meta.at(fields::ANNOTATIONS));
    validate_owners(&meta.at(fields::OWNER_REFERENCES));
}

/// Reports finalizers that are neither qualified nor well-known.
pub fn validate_finalizers_qualified(meta: &FieldRef<'_>) {
    for finalizer in meta.at(fields::FINALIZERS).items() {
        validate_finalizer_qualified(&finalizer);
    }
}

/// Validates an update of the metadata.
pub fn validate_update(meta: &FieldRef<'_>, old: &FieldRef<'_>) {
    if old.at(fields::DELETION_TIMESTAMP).is_set() {
        validate_no_new_finalizers(meta, old);
    }
    for field in [
        fields::NAME,
        fields::NAMESPACE,
        fields::UID,
        fields::CREATION_TIMESTAMP,
        fields::DELETION_TIMESTAMP,
        fields::DELETION_GRACE_PERIOD_SECONDS,
    ] {
        meta.at(field).immutable(&old.at(field));
    }
}

/// Reports invalid labels.
pub fn validate_labels(labels: &FieldRef<'_>) {
    for (label, value) in labels.entries() {
        name::report(label, name::check_qualified_name(label), labels.errors());
        name::report(value.str(), name::check_label_value(value.str()), labels.errors());
    }
}

/// Reports invalid annotation keys, and annotations that are too large.
pub fn validate_annotations(annotations: &FieldRef<'_>) {
    for (key, _) in annotations.entries() {
        // Annotation keys are checked in lower case.
        name::report(
            key,
            name::check_qualified_name(&key.to_lowercase()),
            annotations.errors(),
        );
    }
    validate_annotation_bytes(annotations);
}

/// Reports annotations that are too large in total.
pub fn validate_annotation_bytes(annotations: &FieldRef<'_>) {
    let entries = annotations.entries();
    let bytes: usize = entries.map(|(key, value)| key.len() + value.str().len()).sum();
    if bytes > ANNOTATIONS_BYTES {
        annotations.too_long(ANNOTATIONS_BYTES);
    }
}

/// An invalid name is reported at the list; an unqualified one, by another rule, at the item.
fn validate_finalizers(finalizers: &FieldRef<'_>) {
    for text in finalizers.strs() {
        name::report(text, name::check_qualified_name(text), finalizers.errors());
    }
    let names: Vec<&str> = finalizers.strs().collect();
    if names.contains(&"orphan") && names.contains(&"foregroundDeletion") {
        finalizers.invalid("finalizer orphan and foregroundDeletion cannot be both set");
    }
}

/// Reports a finalizer that is neither qualified nor well-known.
pub fn validate_finalizer(finalizer: &FieldRef<'_>) {
    let text = finalizer.str();
    name::report(text, name::check_qualified_name(text), finalizer.errors());
    validate_finalizer_qualified(finalizer);
}

fn validate_finalizer_qualified(finalizer: &FieldRef<'_>) {
    let text = finalizer.str();
    if !text.contains('/') && !FINALIZERS.contains(&text) {
        finalizer.invalid("name is neither a standard finalizer name nor is it fully qualified");
    }
}

fn validate_names(meta: &FieldRef<'_>, scope: Scope, rule: NameRule) {
    let generate_name = meta.at(fields::GENERATE_NAME);
    if !generate_name.is_empty() {
        let violations = check_name(rule, &mask_trailing_dash(generate_name.str()));
        name::report(generate_name.str(), violations, generate_name.errors());
    }
    let name = meta.at(fields::NAME);
    if name.is_empty() {
        name.required("name or generateName is required");
    } else {
        name::report(name.str(), check_name(rule, name.str()), name.errors());
    }
    let namespace = meta.at(fields::NAMESPACE);
    match scope {
        Scope::Namespaced if namespace.is_empty() => namespace.required(""),
        Scope::Namespaced => name::report(
            namespace.str(),
            name::check_dns1123_label(namespace.str()),
            namespace.errors(),
        ),
        Scope::Cluster if !namespace.is_empty() => namespace.forbidden("not allowed on this type"),
        Scope::Cluster => {}
    }
}

fn check_name(rule: NameRule, text: &str) -> Violations {
    match rule {
        NameRule::Subdomain => name::check_dns1123_subdomain(text),
        NameRule::Label => name::check_dns1123_label(text),
        NameRule::PathSegment => name::path_segment(text),
        NameRule::Service => name::service(text),
        NameRule::Address => ip::strict(text),
        NameRule::Custom => Violations::new(),
    }
}

/// A `generateName` may end in a dash, since a suffix follows.
pub fn mask_trailing_dash(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => format!("{rest}a"),
        _ => prefix.to_owned(),
    }
}

fn validate_owners(owners: &FieldRef<'_>) {
    owners.items().for_each(|owner| validate_owner(&owner));
    let mut controllers = owners.items().filter(|owner| owner.at(fields::CONTROLLER).bool());
    if let (Some(first), Some(second)) = (controllers.next(), controllers.next()) {
        owners.invalid(&format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {}/{} and {}/{}",
            first.at(fields::KIND).str(),
            first.at(fields::NAME).str(),
            second.at(fields::KIND).str(),
            second.at(fields::NAME).str()
        ));
    }
}

fn validate_owner(owner: &FieldRef<'_>) {
    for field in [fields::API_VERSION, fields::KIND, fields::NAME, fields::UID] {
        if owner.at(field).is_empty() {
            owner.at(field).required("must not be empty");
        } else if field == fields::API_VERSION && !is_api_version(owner.at(field).str()) {
            owner.at(field).invalid("must be <group>/<version> or <version>");
        }
    }
    if owner.at(fields::KIND).str() == "Event" && owner.at(fields::API_VERSION).str() == "v1" {
        owner.invalid("/v1, Kind=Event is disallowed from being an owner");
    }
}

/// Whether this is `version` or `group/version`.
fn is_api_version(text: &str) -> bool {
    let mut parts = text.split('/');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    parts.next().is_none() && !second.unwrap_or(first).is_empty()
}

fn validate_no_new_finalizers(meta: &FieldRef<'_>, old: &FieldRef<'_>) {
    let known: BTreeSet<&str> = old.at(fields::FINALIZERS).strs().collect();
    let new: BTreeSet<&str> = meta.at(fields::FINALIZERS).strs().collect();
    let added: Vec<String> = new
        .difference(&known)
        .map(|finalizer| format!("{finalizer:?}"))
        .collect();
    if !added.is_empty() {
        meta.at(fields::FINALIZERS).forbidden(&format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        ));
    }
}
