//! NamespaceLifecycle: nothing is created in a missing or terminating namespace, and system namespaces cannot be deleted.

use setpoint_api::status::StatusCause;
use setpoint_api::{GroupResource, Key, Status};
use setpoint_registry_api::{Operation, Review};

use crate::chain::Plugin;
use crate::review::forbidden;

/// The namespaces that cannot be deleted.
const UNDELETABLE: &[&str] = &["default", "kube-system", "kube-public"];

/// Checks the namespace of each write.
#[derive(Debug)]
pub(crate) struct NamespaceLifecycle;

impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    // Runs before all other plugins, which then need not handle objects that are rejected anyway.
    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        // A review of access must not disclose whether its namespace exists.
        let is_review = review.subresource.is_none() && !review.kind.rules.resource.stored;
        if review.namespace.is_empty() || is_namespace(review) || is_review {
            return Ok(());
        }
        require_namespace(review)
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let undeletable = UNDELETABLE.contains(&review.name);
        if review.operation == Operation::Delete && is_namespace(review) && undeletable {
            let why = "this namespace may not be deleted";
            return Err(Status::forbidden(&namespaces(), review.name, why));
        }
        Ok(())
    }
}

fn namespaces() -> GroupResource {
    GroupResource::new("", "namespaces")
}

fn is_namespace(review: &Review<'_>) -> bool {
    review.kind.gvr.group_resource() == namespaces()
}

fn require_namespace(review: &Review<'_>) -> Result<(), Status> {
    let name = review.namespace;
    let found = review.find(&namespaces(), &Key::new("", name));
    let Some(namespace) = found else {
        return Err(Status::not_found(&namespaces(), name));
    };
    if review.operation == Operation::Create && namespace.header().deleting {
        return Err(terminating(review));
    }
    Ok(())
}

fn terminating(review: &Review<'_>) -> Status {
    let namespace = review.namespace;
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = forbidden(review, &why);
    status.details.get_or_insert_default().causes.push(StatusCause {
        reason: "NamespaceTerminating".to_owned(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".to_owned(),
    });
    status
}
