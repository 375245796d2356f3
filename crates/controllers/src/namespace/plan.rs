//! What to do about a namespace. Pure.

use std::collections::BTreeMap;

use compact_str::CompactString;
use serde::Deserialize;

/// The finalizer in a namespace's spec that this controller removes.
pub(crate) const FINALIZER: &str = "kubernetes";

/// The fields that decide.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NamespaceView {
    metadata: Meta,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    deletion_timestamp: Option<CompactString>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    finalizers: Vec<CompactString>,
}

/// The remaining objects of one resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RemainingObjects {
    /// The resource as named in conditions: `pods`, `replicasets.apps`.
    pub(crate) resource: String,
    pub(crate) objects: usize,
    /// How many objects have each finalizer.
    pub(crate) finalizers: BTreeMap<String, usize>,
}

/// What to do next about a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is not terminating, or already finalized.
    Leave,
    /// Its content must be deleted first.
    Empty,
}

pub(crate) fn step(namespace: &NamespaceView) -> Step {
    let is_held = namespace.spec.finalizers.iter().any(|one| one == FINALIZER);
    match namespace.metadata.deletion_timestamp.is_some() && is_held {
        true => Step::Empty,
        false => Step::Leave,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(namespace: Value, expected: Step) {
        assert_eq!(step(&serde_json::from_value(namespace).unwrap()), expected);
    }

    #[test]
    fn only_the_content_of_a_terminating_namespace_is_deleted() {
        let deleting = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        check(json!({"spec": {"finalizers": ["kubernetes"]}}), Step::Leave);
        check(
            json!({"metadata": deleting, "spec": {"finalizers": ["kubernetes"]}}),
            Step::Empty,
        );
        check(
            json!({"metadata": deleting, "spec": {"finalizers": ["example.com/mine"]}}),
            Step::Leave,
        );
        check(json!({"metadata": deleting}), Step::Leave);
    }
}
