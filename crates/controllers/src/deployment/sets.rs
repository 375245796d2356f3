//! The ReplicaSets of a Deployment: which is of its newest template, the annotations on them, and how a new one is
//! built.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::sizes::{Bounds, Size};
use crate::hash;

/// The label that distinguishes the pods of one set from those of another.
pub(crate) const HASH_LABEL: &str = "pod-template-hash";
/// The revision of a template in the rollout history.
pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
/// The earlier revisions of a set.
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// Annotations that belong to one object and are not copied to another.
const BOOKKEEPING: [&str; 6] = [
    LAST_APPLIED,
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    ROLLBACK_TO,
];

/// The longest revision history; the oldest entries are dropped.
const HISTORY_CHARS: usize = 2000;
const MAX_NAME_LENGTH: usize = 253;

/// The set of the Deployment's own template, if there is one, and the others. If several have the template, the oldest
/// is it.
pub(crate) fn split<'a>(
    deployment: &Deployment,
    sets: &'a [ReplicaSet],
) -> (Option<&'a ReplicaSet>, Vec<&'a ReplicaSet>) {
    let mut sorted: Vec<&ReplicaSet> = sets.iter().collect();
    sorted.sort_by_key(|set| age(set));
    let new = sorted
        .iter()
        .position(|set| has_template(set, &deployment.spec.template));
    let new = new.map(|at| sorted.remove(at));
    (new, sorted)
}

/// The sort key of sets, oldest first.
pub(crate) fn age(set: &ReplicaSet) -> (Option<jiff::Timestamp>, &str) {
    let created = set.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (created, set.metadata.name.as_deref().unwrap_or_default())
}

/// Whether the set has this template, apart from the hash label.
pub(crate) fn has_template(set: &ReplicaSet, template: &PodTemplateSpec) -> bool {
    let own = set.spec.template.clone().unwrap_or_default();
    without_hash(own) == without_hash(template.clone())
}

fn without_hash(mut template: PodTemplateSpec) -> PodTemplateSpec {
    let metadata = template.metadata.get_or_insert_default();
    let labels = metadata.labels.get_or_insert_default();
    labels.remove(HASH_LABEL);
    template
}

pub(crate) fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.replicas.unwrap_or(1)
}

pub(crate) fn available(set: &ReplicaSet) -> i32 {
    let status = set.status.as_ref();
    status.and_then(|status| status.available_replicas).unwrap_or(0)
}

pub(crate) fn size(set: &ReplicaSet) -> Size {
    Size {
        desired_replicas: replicas(set),
        available: available(set),
        max_replicas: count(set, MAX_REPLICAS),
    }
}

/// The Deployment's replicas when the set got its size.
pub(crate) fn desired(set: &ReplicaSet) -> Option<i32> {
    count(set, DESIRED_REPLICAS)
}

fn count(set: &ReplicaSet, annotation: &str) -> Option<i32> {
    let text = set.metadata.annotations.as_ref()?.get(annotation)?;
    text.parse().ok().filter(|count| *count >= 0)
}

/// The revision of the set; 0 if it has none.
pub(crate) fn revision(set: &ReplicaSet) -> i64 {
    let annotations = set.metadata.annotations.as_ref();
    let text = annotations.and_then(|annotations| annotations.get(REVISION));
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The revision after those of these sets.
pub(crate) fn next_revision(olds: &[&ReplicaSet]) -> i64 {
    let newest = olds.iter().map(|old| revision(old)).max();
    newest.unwrap_or(0).saturating_add(1)
}

/// The newest set as it should be, apart from its size: with the Deployment's annotations and the newest revision.
pub(crate) fn amended(deployment: &Deployment, set: &ReplicaSet, next: i64) -> ReplicaSet {
    let mut amended = set.clone();
    amended.spec.min_ready_seconds = deployment.spec.min_ready_seconds;
    let annotations = amended.metadata.annotations.get_or_insert_default();
    copy_annotations(deployment, annotations);
    let old = revision(set);
    if old < next {
        annotations.insert(REVISION.to_owned(), next.to_string());
        if old > 0 {
            let history = annotations.get(REVISION_HISTORY).cloned().unwrap_or_default();
            annotations.insert(REVISION_HISTORY.to_owned(), append_revision(&history, old));
        }
    }
    amended
}

fn copy_annotations(deployment: &Deployment, annotations: &mut BTreeMap<String, String>) {
    let own = deployment.metadata.annotations.iter().flatten();
    for (name, value) in own.filter(|(name, _)| !BOOKKEEPING.contains(&name.as_str())) {
        annotations.insert(name.clone(), value.clone());
    }
}

/// The history with one more revision, without the oldest ones where it would get too long.
fn append_revision(history: &str, revision: i64) -> String {
    let revision = revision.to_string();
    let mut history = history;
    while history.len() + revision.len() >= HISTORY_CHARS {
        history = history.split_once(',').map_or("", |(_, rest)| rest);
    }
    match history.is_empty() {
        true => revision,
        false => format!("{history},{revision}"),
    }
}

/// The set with another size, annotated with the Deployment's current replicas.
pub(crate) fn resized(set: &ReplicaSet, bounds: Bounds, replicas: i32) -> ReplicaSet {
    let mut resized = set.clone();
    resized.spec.replicas = Some(replicas);
    note_bounds(&mut resized, bounds);
    resized
}

fn note_bounds(set: &mut ReplicaSet, bounds: Bounds) {
    let annotations = set.metadata.annotations.get_or_insert_default();
    annotations.insert(DESIRED_REPLICAS.to_owned(), bounds.replicas.to_string());
    annotations.insert(MAX_REPLICAS.to_owned(), bounds.max_pods().to_string());
}

/// A new set of the Deployment's template, without its owner reference.
pub(crate) fn new_set(deployment: &Deployment, bounds: Bounds, replicas: i32, revision: i64) -> ReplicaSet {
    let mut template = deployment.spec.template.clone();
    let collisions = deployment
        .status
        .as_ref()
        .and_then(|status| status.collision_count);
    let json = setpoint_api::json::to_vec(&template).unwrap_or_default();
    let hash = hash::compute_hash(&json, collisions);
    let labels = template
        .metadata
        .get_or_insert_default()
        .labels
        .get_or_insert_default();
    labels.insert(HASH_LABEL.to_owned(), hash.clone());
    let mut selector = deployment.spec.selector.clone();
    let match_labels = selector.match_labels.get_or_insert_default();
    match_labels.insert(HASH_LABEL.to_owned(), hash.clone());
    let metadata = ObjectMeta {
        name: Some(name_of(deployment, &hash)),
        namespace: deployment.metadata.namespace.clone(),
        labels: Some(labels.clone()),
        ..ObjectMeta::default()
    };
    let spec = ReplicaSetSpec {
        replicas: Some(replicas),
        min_ready_seconds: deployment.spec.min_ready_seconds,
        selector,
        template: Some(template),
    };
    let blank = ReplicaSet {
        metadata,
        spec,
        status: None,
    };
    let mut set = amended(deployment, &blank, revision);
    note_bounds(&mut set, bounds);
    set
}

fn name_of(deployment: &Deployment, hash: &str) -> String {
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let longest = MAX_NAME_LENGTH - 1 - hash.len();
    let name = name.get(..longest).unwrap_or(name);
    format!("{name}-{hash}")
}

/// Whether the Deployment's revision annotation already has this value.
pub(crate) fn notes_revision(deployment: &Deployment, revision: &str) -> bool {
    let annotations = deployment.metadata.annotations.as_ref();
    let noted = annotations.and_then(|annotations| annotations.get(REVISION));
    noted.is_some_and(|noted| noted == revision)
}
