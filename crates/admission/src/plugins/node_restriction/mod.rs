//! NodeRestriction: a node may write only its own Node, the pods bound to it, and what belongs to those.
//!
//! The node authorizer decides by resource, verb and name; the objects are checked here, in one file per resource. As
//! upstream, creates and updates are checked before the kind resets fields, so that an attempt is an error.
//!
//! The rules and messages are those of `plugin/pkg/admission/noderestriction/admission.go` in Kubernetes, with the default
//! feature gates of 1.37.

mod api_references;
mod certificate_request;
mod csi_node;
mod lease;
mod node;
mod persistent_volume_claim;
mod pod;
mod pod_certificate_request;
mod resource_slice;
mod service_account;
mod token_audience;

use std::sync::Arc;

use setpoint_api::{GroupResource, Key, Status, Stored, User};
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::Tree;

use crate::chain::{AccessAttributes, AccessChecker, Plugin};
use crate::review;

const NODES: &str = "system:nodes";
const PREFIX: &str = "system:node:";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Restricts the writes of nodes.
#[derive(Debug)]
pub(crate) struct NodeRestriction(pub(crate) Option<Arc<dyn AccessChecker>>);

/// Why a write is rejected.
#[derive(Debug)]
enum Rejection {
    /// The node may not make it.
    Forbidden(String),
    /// An object that it depends on is missing or does not match, which a retry may resolve.
    Failed(Box<Status>),
}

type Outcome<T = ()> = Result<T, Rejection>;

impl Plugin for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        self.check(review)
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        // Deletions have no mutating admission.
        match review.operation {
            Operation::Delete => self.check(review),
            _ => Ok(()),
        }
    }
}

impl NodeRestriction {
    fn check(&self, review: &Review<'_>) -> Result<(), Status> {
        let user: &User = review.user;
        let Some(node) = user.name.strip_prefix(PREFIX).filter(|_| user.is_in(NODES)) else {
            return Ok(());
        };
        let outcome = match node {
            "" => forbid(format!("could not determine node from user {:?}", user.name)),
            node => self.check_resource(review, node),
        };
        outcome.map_err(|rejection| match rejection {
            Rejection::Forbidden(why) => review::forbidden(review, &why),
            Rejection::Failed(status) => *status,
        })
    }

    fn check_resource(&self, review: &Review<'_>, node: &str) -> Outcome {
        let access = self.0.as_deref();
        let gvr = &review.kind.gvr;
        match (gvr.group.as_str(), gvr.resource.as_str()) {
            ("", "pods") => pod::check(review, node),
            ("", "nodes") => node::check(review, node),
            ("", "persistentvolumeclaims") => persistent_volume_claim::check(review, node),
            ("", "serviceaccounts") => service_account::check(review, node, access),
            ("certificates.k8s.io", "podcertificaterequests") => {
                pod_certificate_request::check(review, node, access)
            }
            ("certificates.k8s.io", "certificatesigningrequests") => certificate_request::check(review, node),
            ("coordination.k8s.io", "leases") => lease::check(review, node),
            ("storage.k8s.io", "csinodes") => csi_node::check(review, node),
            ("resource.k8s.io", "resourceslices") => resource_slice::check(review, node),
            _ => Ok(()),
        }
    }
}

fn forbid<T>(why: impl Into<String>) -> Outcome<T> {
    Err(Rejection::Forbidden(why.into()))
}

/// An error without a reason: the caches of upstream may lag, so it does not forbid the write for good.
fn fail<T>(message: String) -> Outcome<T> {
    Err(Rejection::Failed(Box::new(Status {
        status: "Failure".to_owned(),
        message,
        code: 500,
        ..Status::default()
    })))
}

fn unexpected_operation(operation: Operation) -> Outcome {
    forbid(format!("unexpected operation {:?}", operation_name(operation)))
}

fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

/// Another object of the core group, as the store has it now.
fn find(review: &Review<'_>, resource: &str, namespace: &str, name: &str) -> Option<Arc<Stored>> {
    review.find(&GroupResource::new("", resource), &Key::new(namespace, name))
}

fn not_found<T>(resource: &str, name: &str) -> Outcome<T> {
    let status = Status::not_found(&GroupResource::new("", resource), name);
    Err(Rejection::Failed(Box::new(status)))
}

/// The text at a path; empty if absent.
fn text<'a>(object: &'a Tree, path: &[&str]) -> &'a str {
    object.str_at(path).unwrap_or_default()
}

/// Whether two objects have the same value at a path. An absent value equals an empty one.
fn same(left: &Tree, right: &Tree, path: &[&str]) -> bool {
    let value = |object: &Tree| match object.at(path) {
        None => Tree::Null,
        Some(value) if value.as_list().is_some_and(<[Tree]>::is_empty) => Tree::Null,
        Some(value) if value.as_map().is_some_and(setpoint_schema::Map::is_empty) => Tree::Null,
        Some(value) => value.clone(),
    };
    value(left).semantic_eq(&value(right))
}

/// Whether the node has a permission by name, on a resource that exists in RBAC rules only.
fn is_allowed(
    review: &Review<'_>,
    access: Option<&dyn AccessChecker>,
    verb: &str,
    (resource, name): (&str, &str),
) -> bool {
    let attributes = AccessAttributes {
        verb,
        group: &review.kind.gvr.group,
        resource,
        subresource: "",
        namespace: review.namespace,
        name,
    };
    access.is_none_or(|access| access.is_allowed(review.user, &attributes))
}
