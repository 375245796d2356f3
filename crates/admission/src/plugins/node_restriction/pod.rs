//! A node creates mirror pods of itself, and writes the status of, evicts and deletes pods that are bound to it.

use setpoint_api::Stored;
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::{Tree, fields};
use setpoint_strategy::meta;

use super::{MIRROR, Outcome, api_references, find, forbid, not_found, same, text};
use super::{operation_name, unexpected_operation};

pub(super) fn check(review: &Review<'_>, node: &str) -> Outcome {
    match (review.subresource, review.operation) {
        (None, Operation::Create) => match review.object.as_deref() {
            Some(pod) => check_create(review, node, pod),
            None => forbid("unexpected type <nil>"),
        },
        (None, Operation::Delete) if is_on(review.old, node) => Ok(()),
        (None, Operation::Delete) => forbid(format!(
            "node {node:?} can only delete pods with spec.nodeName set to itself"
        )),
        (None, operation) => forbid(format!(
            "unexpected operation {:?}, node {node:?} can only create and delete mirror pods",
            operation_name(operation)
        )),
        (Some("status"), Operation::Update) => check_status(review, node),
        (Some("status"), operation) => unexpected_operation(operation),
        // The later steps of an eviction are an update and a deletion.
        (Some("eviction"), _) => check_eviction(review, node),
        (Some(subresource), _) => forbid(format!(
            "unexpected pod subresource {subresource:?}, only 'status' and 'eviction' are allowed"
        )),
    }
}

fn is_on(pod: Option<&Stored>, node: &str) -> bool {
    pod.and_then(|pod| pod.field("spec.nodeName")) == Some(node)
}

fn check_create(review: &Review<'_>, node: &str, pod: &Tree) -> Outcome {
    if meta::entry(pod, fields::ANNOTATIONS, MIRROR).is_none() {
        return forbid(format!(
            "pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods"
        ));
    }
    if text(pod, &[fields::SPEC, fields::NODE_NAME]) != node {
        return forbid(format!(
            "node {node:?} can only create pods with spec.nodeName set to itself"
        ));
    }
    let owners = meta::find(pod, fields::OWNER_REFERENCES).and_then(Tree::as_list);
    match owners.unwrap_or_default() {
        [owner] => check_owner(review, node, owner)?,
        [] => {
            return forbid(format!(
                "node {node:?} can only create pods with an owner reference set to itself"
            ));
        }
        _ => {
            return forbid(format!(
                "node {node:?} can only create pods with a single owner reference set to itself"
            ));
        }
    }
    match api_references::find(pod) {
        Ok(None) => Ok(()),
        Ok(Some(resource)) => forbid(format!(
            "node {node:?} can not create pods that reference {resource}"
        )),
        Err(error) => forbid(format!("error checking mirror pod for API references: {error}")),
    }
}

/// The owner of a mirror pod must be the node, as its controller.
fn check_owner(review: &Review<'_>, node: &str, owner: &Tree) -> Outcome {
    let is_set = |field: &str| owner.get(field).and_then(Tree::as_bool) == Some(true);
    let is_node = text(owner, &[fields::API_VERSION]) == "v1"
        && text(owner, &[fields::KIND]) == "Node"
        && text(owner, &[fields::NAME]) == node;
    if !is_node {
        return forbid(format!(
            "node {node:?} can only create pods with an owner reference set to itself"
        ));
    }
    if !is_set(fields::CONTROLLER) {
        return forbid(format!(
            "node {node:?} can only create pods with a controller owner reference set to itself"
        ));
    }
    if is_set(fields::BLOCK_OWNER_DELETION) {
        return forbid(format!(
            "node {node:?} must not set blockOwnerDeletion on an owner reference"
        ));
    }
    let Some(stored) = find(review, "nodes", "", node) else {
        return not_found("nodes", node);
    };
    let uid = text(owner, &[fields::UID]);
    match uid == stored.uid() {
        true => Ok(()),
        false => forbid(format!(
            "node {node} UID mismatch: expected {uid} got {}",
            stored.uid()
        )),
    }
}

fn check_status(review: &Review<'_>, node: &str) -> Outcome {
    if !is_on(review.old, node) {
        return forbid(format!(
            "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
        ));
    }
    let (Some(old), Some(new)) = (review.decode_old(), review.object.as_deref()) else {
        return forbid("unexpected type <nil>");
    };
    let unchanged: [(&[&str], &str); 4] = [
        (
            &[fields::METADATA, fields::LABELS],
            "cannot update labels through pod status",
        ),
        (
            &[fields::STATUS, fields::RESOURCE_CLAIM_STATUSES],
            "cannot update resource claim statues",
        ),
        (
            &[fields::STATUS, fields::EXTENDED_RESOURCE_CLAIM_STATUS],
            "cannot update extended resource claim status",
        ),
        (
            &[fields::STATUS, fields::NODE_ALLOCATABLE_RESOURCE_CLAIM_STATUSES],
            "cannot update node allocatable resource claim statuses",
        ),
    ];
    match unchanged.iter().find(|(path, _)| !same(&old, new, path)) {
        None => Ok(()),
        Some((_, why)) => forbid(format!("node {node:?} {why}")),
    }
}

fn check_eviction(review: &Review<'_>, node: &str) -> Outcome {
    let Some(pod) = find(review, "pods", review.namespace, review.name) else {
        return not_found("pods", review.name);
    };
    match is_on(Some(&pod), node) {
        true => Ok(()),
        false => forbid(format!(
            "node {node} can only evict pods with spec.nodeName set to itself"
        )),
    }
}
