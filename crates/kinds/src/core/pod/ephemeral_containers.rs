//! The `ephemeralcontainers` subresource: debugging containers added to a running pod.

use setpoint_schema::Tree;

use super::spec::update::difference;
use super::{MIRROR, Pod, validate_annotations};
use crate::field::FieldRef;
use crate::strategy::Strategy;
use crate::top_level;

const LIST: &str = "ephemeralContainers";

/// Keeps everything but the list of ephemeral containers.
pub(super) fn prepare(pod: &mut Tree, old: &Tree) {
    let list = pod.take(&["spec", LIST]);
    keep_all(pod, old);
    match list {
        Some(list) => pod.set(&["spec", LIST], list),
        None => _ = pod.take(&["spec", LIST]),
    }
}

/// Restores the old spec, status and metadata, except for `managedFields`.
pub(super) fn keep_all(pod: &mut Tree, old: &Tree) {
    top_level::keep(pod, old, "spec");
    top_level::keep(pod, old, "status");
    for field in [
        "deletionTimestamp",
        "generation",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
    ] {
        crate::meta::copy(pod, old, field);
    }
}

/// Reports ephemeral containers that were removed or changed.
pub(super) fn validate(pod: &FieldRef<'_>, old: &FieldRef<'_>) {
    if old.at("metadata").at("annotations").key(MIRROR).is_set() {
        return pod
            .errors()
            .root()
            .forbidden("static pods do not support ephemeral containers");
    }
    Pod::validate_for_update(pod, old);
    validate_annotations(pod, old);
    let list = pod.at("spec").at(LIST);
    for before in old.at("spec").at(LIST).items() {
        let name = before.at("name").str();
        match list.items().rfind(|now| now.at("name").str() == name) {
            None => list.forbidden(&format!(
                "existing ephemeral containers {name:?} may not be removed\n"
            )),
            Some(now) if !now.is_same(&before) => {
                let lines = difference(&before, now.value());
                list.forbidden(&format!(
                    "existing ephemeral containers {name:?} may not be changed\n{lines}"
                ));
            }
            Some(_) => {}
        }
    }
}
