//! Migration from client-side to server-side `kubectl apply`.
//!
//! Client-side apply stores the last applied configuration in an annotation. When kubectl first applies on the server
//! side, the fields of that configuration belong to its own earlier updates: they are no conflicts, as long as the live
//! object still has those values. From then on the annotation is kept up to date, so that the user can switch back.

use super::compare::compare;
use super::field_set::FieldSet;
use super::traversal::ReadMode;
use crate::shape::Shape;
use crate::tree::Tree;
use crate::write::write_tree;

const ANNOTATION: [&str; 3] = [
    "metadata",
    "annotations",
    "kubectl.kubernetes.io/last-applied-configuration",
];

/// The only manager that is migrated.
const MANAGER: &str = "kubectl";

/// The limit for all annotations of an object together.
const MAX_BYTES: usize = 256 * 1024;

/// The paths that the manager may take over because it applied them last, and they have not changed since.
pub(super) fn takeover_allowed(shape: &Shape, live: &Tree, manager: &str) -> FieldSet {
    let last = live.str_at(&ANNOTATION).filter(|_| manager == MANAGER);
    let Some(last) = last.and_then(|text| serde_json::from_str::<Tree>(text).ok()) else {
        return FieldSet::default();
    };
    let comparison = compare(shape, (&last, live), ReadMode::Literal, &FieldSet::default());
    let mut allowed = FieldSet::from_value(shape, &last);
    comparison.remove_from(&mut allowed);
    allowed
}

/// Updates the annotation to the applied configuration, if the object has one.
pub(super) fn update_annotation(object: &mut Tree, applied: &Tree, manager: &str) {
    if manager != MANAGER || object.str_at(&ANNOTATION).is_none_or(str::is_empty) {
        return;
    }
    let mut applied = applied.clone();
    applied.take(&ANNOTATION);
    let mut text = Vec::new();
    write_tree(&applied.sorted(), &mut text);
    text.push(b'\n');
    if text.len() > MAX_BYTES {
        object.take(&ANNOTATION);
    } else {
        object.set(&ANNOTATION, String::from_utf8_lossy(&text).into_owned());
    }
}
