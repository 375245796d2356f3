//! Containers that are added to a running pod to look into it, and stay.

use setpoint_schema::Tree;

use super::spec::update::difference;
use super::{MIRROR, Pod, validate_annotations};
use crate::at::At;
use crate::parts;
use crate::strategy::Strategy;

const LIST: &str = "ephemeralContainers";

/// Keeps everything but the list.
pub(super) fn prepare(pod: &mut Tree, old: &Tree) {
    let list = pod.take(&["spec", LIST]);
    keep_all(pod, old);
    match list {
        Some(list) => pod.set(&["spec", LIST], list),
        None => _ = pod.take(&["spec", LIST]),
    }
}

/// Makes a pod what it was, but for the marks of who changes what.
pub(super) fn keep_all(pod: &mut Tree, old: &Tree) {
    parts::keep(pod, old, "spec");
    parts::keep(pod, old, "status");
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

/// Reports a container that goes away or changes.
pub(super) fn validate(pod: &At<'_>, old: &At<'_>) {
    if old.at("metadata").at("annotations").key(MIRROR).is_set() {
        return pod
            .errors()
            .root()
            .forbidden("static pods do not support ephemeral containers");
    }
    Pod::validate_again(pod, old);
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
