//! The rules of metadata, which all kinds share, and the short ways to read and write it in a document.

use std::collections::BTreeSet;

use jiff::Timestamp;

use setpoint_schema::Tree;

use crate::at::At;
use crate::shared::ip;
use crate::shared::name::{self, Complaints};
use crate::strategy::{NameRule, Scope};

const ANNOTATIONS_BYTES: usize = 256 * 1024;
/// Finalizers without a domain in their name.
const FINALIZERS: &[&str] = &["foregroundDeletion", "orphan", "kubernetes"];

// === reading and writing ===

/// A text of the metadata; empty if it is not there.
pub fn str<'a>(object: &'a Tree, field: &str) -> &'a str {
    object.str_at(&["metadata", field]).unwrap_or_default()
}

/// A number of the metadata; zero if it is not there.
pub fn int(object: &Tree, field: &str) -> i64 {
    find(object, field).and_then(Tree::as_i64).unwrap_or_default()
}

/// A moment of the metadata.
pub fn time(object: &Tree, field: &str) -> Option<Timestamp> {
    str(object, field).parse().ok()
}

/// Anything of the metadata.
pub fn find<'a>(object: &'a Tree, field: &str) -> Option<&'a Tree> {
    object.at(&["metadata", field]).filter(|value| !value.is_null())
}

/// The object's name; empty while it has none.
pub fn name(object: &Tree) -> &str {
    str(object, "name")
}

/// A label or an annotation; `field` says which.
pub fn entry<'a>(object: &'a Tree, field: &str, key: &str) -> Option<&'a str> {
    find(object, field)?.get(key)?.as_str()
}

/// Sets something of the metadata.
pub fn set(object: &mut Tree, field: &str, value: impl Into<Tree>) {
    object.set(&["metadata", field], value);
}

/// Takes something of the metadata away.
pub fn clear(object: &mut Tree, field: &str) {
    object.take(&["metadata", field]);
}

/// Makes something of the metadata what it is in another document.
pub fn copy(object: &mut Tree, other: &Tree, field: &str) {
    match find(other, field) {
        Some(value) => set(object, field, value.clone()),
        None => clear(object, field),
    }
}

/// Keeps what an update of the status may not change in the metadata, for kinds that are strict about it.
pub fn keep_for_status(object: &mut Tree, old: &Tree) {
    for field in [
        "deletionTimestamp",
        "generation",
        "selfLink",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
    ] {
        copy(object, old, field);
    }
}

/// A moment as metadata has it: in whole seconds.
pub fn moment(time: Timestamp) -> Tree {
    Tree::from(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Whether the object has been asked to go.
pub fn is_deleting(object: &Tree) -> bool {
    find(object, "deletionTimestamp").is_some()
}

// === rules ===

/// Reports what is wrong with an object's metadata.
pub fn validate(meta: &At<'_>, scope: Scope, rule: NameRule) {
    validate_names(meta, scope, rule);
    meta.at("generation").not_negative();
    validate_labels(&meta.at("labels"));
    validate_annotations(&meta.at("annotations"));
    validate_owners(&meta.at("ownerReferences"));
    validate_finalizers(&meta.at("finalizers"));
}

/// Reports finalizers that have no domain and are none of the known ones.
pub fn validate_finalizer_owners(meta: &At<'_>) {
    for finalizer in meta.at("finalizers").items() {
        validate_owner_of_finalizer(&finalizer);
    }
}

/// Reports what may not follow from the metadata before.
pub fn validate_update(meta: &At<'_>, old: &At<'_>) {
    if old.at("deletionTimestamp").is_set() {
        validate_no_new_finalizers(meta, old);
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        meta.at(field).immutable(&old.at(field));
    }
}

/// Reports labels that are none.
pub fn validate_labels(labels: &At<'_>) {
    for (label, value) in labels.entries() {
        name::report(label, name::qualified(label), labels.errors());
        name::report(value.str(), name::label_value(value.str()), labels.errors());
    }
}

/// Reports annotations that are none, or too many bytes of them.
pub fn validate_annotations(annotations: &At<'_>) {
    for (key, _) in annotations.entries() {
        // The rule is about the key whatever its case.
        name::report(key, name::qualified(&key.to_lowercase()), annotations.errors());
    }
    validate_annotation_bytes(annotations);
}

/// Reports too many bytes of annotations.
pub fn validate_annotation_bytes(annotations: &At<'_>) {
    let entries = annotations.entries();
    let bytes: usize = entries.map(|(key, value)| key.len() + value.str().len()).sum();
    if bytes > ANNOTATIONS_BYTES {
        annotations.too_long(ANNOTATIONS_BYTES);
    }
}

/// The form of each is reported at the list; who it is of, by another rule, at the item.
fn validate_finalizers(finalizers: &At<'_>) {
    for text in finalizers.strs() {
        name::report(text, name::qualified(text), finalizers.errors());
    }
    let names: Vec<&str> = finalizers.strs().collect();
    if names.contains(&"orphan") && names.contains(&"foregroundDeletion") {
        finalizers.invalid("finalizer orphan and foregroundDeletion cannot be both set");
    }
}

/// Reports a finalizer that has no domain and is none of the known ones.
pub fn validate_finalizer(finalizer: &At<'_>) {
    let text = finalizer.str();
    name::report(text, name::qualified(text), finalizer.errors());
    validate_owner_of_finalizer(finalizer);
}

fn validate_owner_of_finalizer(finalizer: &At<'_>) {
    let text = finalizer.str();
    if !text.contains('/') && !FINALIZERS.contains(&text) {
        finalizer.invalid("name is neither a standard finalizer name nor is it fully qualified");
    }
}

fn validate_names(meta: &At<'_>, scope: Scope, rule: NameRule) {
    let generate_name = meta.at("generateName");
    if !generate_name.is_empty() {
        let complaints = check_name(rule, &masked(generate_name.str()));
        name::report(generate_name.str(), complaints, generate_name.errors());
    }
    let own = meta.at("name");
    if own.is_empty() {
        own.required("name or generateName is required");
    } else {
        name::report(own.str(), check_name(rule, own.str()), own.errors());
    }
    let namespace = meta.at("namespace");
    match scope {
        Scope::Namespaced if namespace.is_empty() => namespace.required(""),
        Scope::Namespaced => name::report(namespace.str(), name::label(namespace.str()), namespace.errors()),
        Scope::Cluster if !namespace.is_empty() => namespace.forbidden("not allowed on this type"),
        Scope::Cluster => {}
    }
}

fn check_name(rule: NameRule, text: &str) -> Complaints {
    match rule {
        NameRule::Subdomain => name::subdomain(text),
        NameRule::Label => name::label(text),
        NameRule::PathSegment => name::path_segment(text),
        NameRule::Service => name::service(text),
        NameRule::Address => ip::strict(text),
        NameRule::Own => Complaints::new(),
    }
}

/// A prefix may end in a dash, since more is to follow.
pub(crate) fn masked(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => format!("{rest}a"),
        _ => prefix.to_owned(),
    }
}

fn validate_owners(owners: &At<'_>) {
    owners.items().for_each(|owner| validate_owner(&owner));
    let mut controllers = owners.items().filter(|owner| owner.at("controller").bool());
    if let (Some(first), Some(second)) = (controllers.next(), controllers.next()) {
        owners.invalid(&format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {}/{} and {}/{}",
            first.at("kind").str(),
            first.at("name").str(),
            second.at("kind").str(),
            second.at("name").str()
        ));
    }
}

fn validate_owner(owner: &At<'_>) {
    for field in ["apiVersion", "kind", "name", "uid"] {
        if owner.at(field).is_empty() {
            owner.at(field).required("must not be empty");
        }
    }
    if owner.at("kind").str() == "Event" && owner.at("apiVersion").str() == "v1" {
        owner.invalid("/v1, Kind=Event is disallowed from being an owner");
    }
}

fn validate_no_new_finalizers(meta: &At<'_>, old: &At<'_>) {
    let known: BTreeSet<&str> = old.at("finalizers").strs().collect();
    let new: BTreeSet<&str> = meta.at("finalizers").strs().collect();
    let added: Vec<String> = new
        .difference(&known)
        .map(|finalizer| format!("{finalizer:?}"))
        .collect();
    if !added.is_empty() {
        meta.at("finalizers").forbidden(&format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        ));
    }
}
