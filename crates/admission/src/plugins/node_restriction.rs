//! NodeRestriction: a kubelet may write only its own Node, its lease, and the pods bound to it.

use setpoint_api::{GroupResource, Key, Status, User};
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::{Tree, fields};
use setpoint_strategy::meta;

use crate::chain::Plugin;
use crate::review;

const NODES: &str = "system:nodes";
const PREFIX: &str = "system:node:";
const MIRROR: &str = "kubernetes.io/config.mirror";
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Restricts the writes of nodes.
#[derive(Debug)]
pub(crate) struct NodeRestriction;

impl Plugin for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let user: &User = review.user;
        let Some(node) = user.name.strip_prefix(PREFIX).filter(|_| user.is_in(NODES)) else {
            return Ok(());
        };
        let gvr = &review.kind.gvr;
        let checked = match (gvr.group.as_str(), gvr.resource.as_str()) {
            ("", "pods") => check_pod(review, node),
            ("", "nodes") => check_node(review, node),
            ("coordination.k8s.io", "leases") => check_lease(review, node),
            _ => Ok(()),
        };
        checked.map_err(|why| review::forbidden(review, &why))
    }
}

fn check_pod(review: &Review<'_>, node: &str) -> Result<(), String> {
    match (review.operation, review.subresource) {
        (Operation::Create, None) => check_new_pod(review, node),
        (Operation::Create, Some("eviction")) => check_own_pod(review, node, "evict"),
        (Operation::Update, Some("status")) => check_own_pod(review, node, "update status for"),
        (Operation::Delete, None) => check_own_pod(review, node, "delete"),
        (operation, _) => Err(format!(
            "unexpected operation {:?}, node {node:?} can only create and delete mirror pods",
            operation_name(operation)
        )),
    }
}

fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

fn check_new_pod(review: &Review<'_>, node: &str) -> Result<(), String> {
    let Some(pod) = review.object.as_deref() else {
        return Ok(());
    };
    if meta::entry(pod, "annotations", MIRROR).is_none() {
        return Err(format!(
            "pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods"
        ));
    }
    if pod.str_at(&[fields::SPEC, fields::NODE_NAME]) != Some(node) {
        return Err(format!(
            "node {node:?} can only create pods with spec.nodeName set to itself"
        ));
    }
    let owners = meta::find(pod, "ownerReferences")
        .and_then(Tree::as_list)
        .unwrap_or_default();
    let by_node = |owner: &Tree| {
        owner.str_at(&[fields::KIND]) == Some("Node") && owner.str_at(&[fields::NAME]) == Some(node)
    };
    if owners.len() > 1 || owners.iter().any(|owner| !by_node(owner)) {
        return Err(format!(
            "node {node:?} can only create pods with an owner reference set to itself"
        ));
    }
    if !pod
        .str_at(&[fields::SPEC, fields::SERVICE_ACCOUNT_NAME])
        .unwrap_or_default()
        .is_empty()
    {
        return Err(format!(
            "node {node:?} can not create pods that reference a service account"
        ));
    }
    Ok(())
}

fn check_own_pod(review: &Review<'_>, node: &str, what: &str) -> Result<(), String> {
    let pods = GroupResource::new("", "pods");
    let found = review.find(&pods, &Key::new(review.namespace, review.name));
    let node_name = found.and_then(|pod| pod.field("spec.nodeName").map(str::to_owned));
    if node_name.as_deref() == Some(node) {
        return Ok(());
    }
    Err(format!(
        "node {node:?} can only {what} pods with spec.nodeName set to itself"
    ))
}

fn check_node(review: &Review<'_>, node: &str) -> Result<(), String> {
    if review.name != node {
        return Err(format!(
            "node {node:?} is not allowed to modify node {:?}",
            review.name
        ));
    }
    if review.operation == Operation::Delete {
        return Err(format!("node {node:?} cannot delete node {node:?}"));
    }
    let (Some(old), Some(new)) = (review.decode_old(), review.object.as_deref()) else {
        return Ok(());
    };
    let null = Tree::Null;
    let taints = |object: &Tree| {
        object
            .at(&[fields::SPEC, fields::TAINTS])
            .unwrap_or(&null)
            .clone()
    };
    if !taints(&old).semantic_eq(&taints(new)) {
        return Err(format!("node {node:?} is not allowed to modify taints"));
    }
    Ok(())
}

fn check_lease(review: &Review<'_>, node: &str) -> Result<(), String> {
    if review.namespace != LEASE_NAMESPACE {
        return Err(format!(
            "can only access leases in the {LEASE_NAMESPACE:?} system namespace"
        ));
    }
    let lease_name = match (review.name, review.object.as_deref()) {
        ("", Some(lease)) => meta::name(lease),
        (name, _) => name,
    };
    if lease_name != node {
        return Err("can only access node lease with the same name as the requesting node".to_owned());
    }
    Ok(())
}
