//! The way from `kubectl apply` on the client's side to apply on the server's side.
//!
//! The client's side keeps what it last applied in an annotation. When the same tool applies on the server's side for
//! the first time, what it applied before belongs to the tool's own updates: conflicts with them are none, as long as the
//! live object still has those values. From then on the annotation is kept up to date, so that the way back is open.

use super::compare::compare;
use super::field_set::FieldSet;
use super::view::Reading;
use crate::shape::Shape;
use crate::tree::Tree;
use crate::write::write_tree;

const ANNOTATION: [&str; 3] = [
    "metadata",
    "annotations",
    "kubectl.kubernetes.io/last-applied-configuration",
];

/// The one manager this is for.
const MANAGER: &str = "kubectl";

/// No annotation may be longer than all of them together.
const MOST_BYTES: usize = 256 * 1024;

/// The paths that the manager may take over because it applied them last, and nobody has changed them since.
pub(super) fn allowed(shape: &Shape, live: &Tree, manager: &str) -> FieldSet {
    let last = live.str_at(&ANNOTATION).filter(|_| manager == MANAGER);
    let Some(last) = last.and_then(|text| serde_json::from_str::<Tree>(text).ok()) else {
        return FieldSet::default();
    };
    let change = compare(shape, (&last, live), Reading::Literal, &FieldSet::default());
    let mut allowed = FieldSet::of(shape, &last);
    change.take_from(&mut allowed);
    allowed
}

/// Brings the annotation up to date, if the object has one.
pub(super) fn keep_up(object: &mut Tree, applied: &Tree, manager: &str) {
    if manager != MANAGER || object.str_at(&ANNOTATION).is_none_or(str::is_empty) {
        return;
    }
    let mut applied = applied.clone();
    applied.take(&ANNOTATION);
    let mut text = Vec::new();
    write_tree(&applied.sorted(), &mut text);
    text.push(b'\n');
    if text.len() > MOST_BYTES {
        object.take(&ANNOTATION);
    } else {
        object.set(&ANNOTATION, String::from_utf8_lossy(&text).into_owned());
    }
}
