//! A node writes the capacity and conditions in the status of a claim, when it resizes the volume, and nothing else.

use setpoint_registry_api::{Operation, Review};
use setpoint_schema::{Tree, fields};

use super::{Outcome, forbid, unexpected_operation};

/// The fields that a node may change, or that change with any write.
const IGNORED: [[&str; 2]; 6] = [
    [fields::METADATA, fields::RESOURCE_VERSION],
    [fields::METADATA, fields::MANAGED_FIELDS],
    [fields::STATUS, fields::CAPACITY],
    [fields::STATUS, fields::CONDITIONS],
    [fields::STATUS, fields::ALLOCATED_RESOURCE_STATUSES],
    [fields::STATUS, fields::ALLOCATED_RESOURCES],
];

pub(super) fn check(review: &Review<'_>, node: &str) -> Outcome {
    match (review.subresource, review.operation) {
        (Some("status"), Operation::Update) => check_status(review, node),
        (Some("status"), operation) => unexpected_operation(operation),
        _ => forbid("may only update PVC status"),
    }
}

fn check_status(review: &Review<'_>, node: &str) -> Outcome {
    let (Some(old), Some(new)) = (review.decode_old(), review.object.as_deref()) else {
        return forbid("unexpected type <nil>");
    };
    let (old, new) = (without_ignored(old), without_ignored(new.clone()));
    if old.semantic_eq(&new) {
        return Ok(());
    }
    forbid(format!(
        "node {node:?} is not allowed to update fields other than status.quantity and status.conditions: {}",
        changed(&old, &new).join(", ")
    ))
}

fn without_ignored(mut claim: Tree) -> Tree {
    for path in &IGNORED {
        claim.take(path);
    }
    claim
}

/// The changed fields, down to the second level: upstream has a diff of the objects here.
fn changed(old: &Tree, new: &Tree) -> Vec<String> {
    let null = Tree::Null;
    let keys = |left: &Tree, right: &Tree| {
        let maps = [left.as_map(), right.as_map()].into_iter().flatten();
        let mut keys: Vec<String> = maps.flat_map(|map| map.keys().map(str::to_owned)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    };
    let mut paths = Vec::new();
    for top in keys(old, new) {
        let (left, right) = (old.get(&top).unwrap_or(&null), new.get(&top).unwrap_or(&null));
        for key in keys(left, right) {
            let value = |object: &Tree| object.get(&key).unwrap_or(&null).clone();
            if !value(left).semantic_eq(&value(right)) {
                paths.push(format!("{top}.{key}"));
            }
        }
    }
    paths
}
