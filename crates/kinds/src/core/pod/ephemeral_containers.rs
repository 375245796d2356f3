//! The `ephemeralcontainers` subresource: debugging containers added to a running pod.

use std::collections::HashMap;

use setpoint_schema::{Tree, fields};
use setpoint_strategy::{FieldRef, PartialRules, RequestFacts, Strategy, top_level};

use super::spec::update::difference;
use super::{MIRROR, Pod, validate_annotations};

const LIST: &str = fields::EPHEMERAL_CONTAINERS;

pub(super) const RULES: PartialRules = PartialRules {
    prepare: |pod, old, _| prepare(pod, old),
    validate,
};

/// Keeps everything but the list of ephemeral containers.
fn prepare(pod: &mut Tree, old: &Tree) {
    let list = pod.take(&[fields::SPEC, LIST]);
    keep_all(pod, old);
    match list {
        Some(list) => pod.set(&[fields::SPEC, LIST], list),
        None => _ = pod.take(&[fields::SPEC, LIST]),
    }
}

/// Restores the old spec, status and metadata, except for `managedFields`.
pub(super) fn keep_all(pod: &mut Tree, old: &Tree) {
    top_level::keep(pod, old, fields::SPEC);
    top_level::keep(pod, old, fields::STATUS);
    for field in [
        fields::DELETION_TIMESTAMP,
        fields::GENERATION,
        fields::LABELS,
        fields::ANNOTATIONS,
        fields::FINALIZERS,
        fields::OWNER_REFERENCES,
    ] {
        setpoint_strategy::meta::copy(pod, old, field);
    }
}

/// Reports ephemeral containers that were removed or changed.
fn validate(pod: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
    if old
        .at(fields::METADATA)
        .at(fields::ANNOTATIONS)
        .key(MIRROR)
        .is_set()
    {
        return pod
            .errors()
            .root()
            .forbidden("static pods do not support ephemeral containers");
    }
    Pod::validate_for_update(pod, old, facts);
    validate_annotations(pod, old);
    let list = pod.at(fields::SPEC).at(LIST);
    let named = list.items().map(|now| (now.at(fields::NAME).str(), now));
    let named: HashMap<&str, FieldRef<'_>> = named.collect();
    for before in old.at(fields::SPEC).at(LIST).items() {
        let name = before.at(fields::NAME).str();
        match named.get(name) {
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
