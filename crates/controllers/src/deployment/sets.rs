//! The sets of a Deployment: which is of its newest template, what is noted on them, and what a new one looks like.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::sizes::{Bounds, Size};
use crate::hash;

/// The label that tells the pods of one set from those of another.
pub(crate) const HASH_LABEL: &str = "pod-template-hash";
/// Which turn of the history a template is.
pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
/// The turns that a set was before.
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// The annotations that are about one object and mean nothing on another.
const BOOKKEEPING: [&str; 6] = [
    LAST_APPLIED,
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    ROLLBACK_TO,
];

/// The longest that the history of turns gets; the oldest are left out.
const HISTORY_CHARS: usize = 2000;
const LONGEST_NAME: usize = 253;

/// The set of the Deployment's own template, if there is one, and the others. Of several the oldest is it.
pub(crate) fn split<'a>(
    deployment: &Deployment,
    sets: &'a [ReplicaSet],
) -> (Option<&'a ReplicaSet>, Vec<&'a ReplicaSet>) {
    let mut sorted: Vec<&ReplicaSet> = sets.iter().collect();
    sorted.sort_by_key(|set| age(set));
    let new = sorted
        .iter()
        .position(|set| is_of(set, &deployment.spec.template));
    let new = new.map(|at| sorted.remove(at));
    (new, sorted)
}

/// What sorts sets from the oldest to the newest.
pub(crate) fn age(set: &ReplicaSet) -> (Option<jiff::Timestamp>, &str) {
    let created = set.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (created, set.metadata.name.as_deref().unwrap_or_default())
}

/// Whether the set makes pods of this template; the label that tells sets apart does not count.
pub(crate) fn is_of(set: &ReplicaSet, template: &PodTemplateSpec) -> bool {
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
        wanted: replicas(set),
        available: available(set),
        most_then: count(set, MAX_REPLICAS),
    }
}

/// How many replicas the Deployment wanted when the set got its size.
pub(crate) fn desired(set: &ReplicaSet) -> Option<i32> {
    count(set, DESIRED_REPLICAS)
}

fn count(set: &ReplicaSet, annotation: &str) -> Option<i32> {
    let text = set.metadata.annotations.as_ref()?.get(annotation)?;
    text.parse().ok().filter(|count| *count >= 0)
}

/// Which turn of the history the set is; 0 if it does not say.
pub(crate) fn revision(set: &ReplicaSet) -> i64 {
    let annotations = set.metadata.annotations.as_ref();
    let text = annotations.and_then(|annotations| annotations.get(REVISION));
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The turn after those of these sets.
pub(crate) fn next_revision(olds: &[&ReplicaSet]) -> i64 {
    let newest = olds.iter().map(|old| revision(old)).max();
    newest.unwrap_or(0).saturating_add(1)
}

/// The set of the newest template as it should be, apart from its size: with the Deployment's annotations and the
/// newest turn.
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
            annotations.insert(REVISION_HISTORY.to_owned(), longer(&history, old));
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

/// The history with one more turn, without its oldest ones where it would get too long.
fn longer(history: &str, turn: i64) -> String {
    let turn = turn.to_string();
    let mut history = history;
    while history.len() + turn.len() >= HISTORY_CHARS {
        history = history.split_once(',').map_or("", |(_, rest)| rest);
    }
    match history.is_empty() {
        true => turn,
        false => format!("{history},{turn}"),
    }
}

/// The set in another size, with a note of what the Deployment wants now.
pub(crate) fn resized(set: &ReplicaSet, bounds: Bounds, replicas: i32) -> ReplicaSet {
    let mut resized = set.clone();
    resized.spec.replicas = Some(replicas);
    note_bounds(&mut resized, bounds);
    resized
}

fn note_bounds(set: &mut ReplicaSet, bounds: Bounds) {
    let annotations = set.metadata.annotations.get_or_insert_default();
    annotations.insert(DESIRED_REPLICAS.to_owned(), bounds.replicas.to_string());
    annotations.insert(MAX_REPLICAS.to_owned(), bounds.most().to_string());
}

/// A new set of the Deployment's template; its owner is still to be named.
pub(crate) fn new_set(deployment: &Deployment, bounds: Bounds, replicas: i32, turn: i64) -> ReplicaSet {
    let mut template = deployment.spec.template.clone();
    let collisions = deployment
        .status
        .as_ref()
        .and_then(|status| status.collision_count);
    let json = serde_json::to_vec(&template).unwrap_or_default();
    let hash = hash::short(&json, collisions);
    let labels = template
        .metadata
        .get_or_insert_default()
        .labels
        .get_or_insert_default();
    labels.insert(HASH_LABEL.to_owned(), hash.clone());
    let mut selector = deployment.spec.selector.clone();
    let picked = selector.match_labels.get_or_insert_default();
    picked.insert(HASH_LABEL.to_owned(), hash.clone());
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
    let mut set = amended(deployment, &blank, turn);
    note_bounds(&mut set, bounds);
    set
}

fn name_of(deployment: &Deployment, hash: &str) -> String {
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let longest = LONGEST_NAME - 1 - hash.len();
    let name = name.get(..longest).unwrap_or(name);
    format!("{name}-{hash}")
}

/// Whether the deployment's own notes of its turn must be changed to this.
pub(crate) fn notes_revision(deployment: &Deployment, revision: &str) -> bool {
    let annotations = deployment.metadata.annotations.as_ref();
    let noted = annotations.and_then(|annotations| annotations.get(REVISION));
    noted.is_some_and(|noted| noted == revision)
}
