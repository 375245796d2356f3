//! OwnerReferencesPermissionEnforcement: setting an owner reference requires permission to delete the object, and
//! `blockOwnerDeletion` permission to set the owner's finalizers. Off by default.

use std::sync::Arc;

use setpoint_api::{ApiVerb, Status};
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::{Tree, fields};
use setpoint_strategy::meta;

use crate::chain::{AccessAttributes, AccessChecker, Plugin};
use crate::review;

/// Checks the permissions for changed owner references.
#[derive(Debug)]
pub(crate) struct OwnerReferencesPermissionEnforcement(pub(crate) Option<Arc<dyn AccessChecker>>);

impl Plugin for OwnerReferencesPermissionEnforcement {
    fn name(&self) -> &'static str {
        "OwnerReferencesPermissionEnforcement"
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let written = matches!(review.operation, Operation::Create | Operation::Update);
        // A write of a pod's status cannot change its owners.
        let exempt =
            review.subresource == Some("status") && review::is_resource_or_subresource(review, "", "pods");
        let (Some(access), true, false) = (self.0.as_deref(), written, exempt) else {
            return Ok(());
        };
        let old = review.decode_old();
        let (before, after) = (owners(old.as_ref()), owners(review.object.as_deref()));
        if before == after {
            return Ok(());
        }
        if review.operation == Operation::Update && !access.is_allowed(review.user, &deletion(review)) {
            let why = "cannot set an ownerRef on a resource you can't delete: , <nil>";
            return Err(review::forbidden(review, why));
        }
        check_blocking(review, access, &blocking(before), &blocking(after))
    }
}

fn owners(object: Option<&Tree>) -> &[Tree] {
    let owners = object.and_then(|object| meta::find(object, "ownerReferences"));
    owners.and_then(Tree::as_list).unwrap_or_default()
}

/// The owner references with `blockOwnerDeletion`.
fn blocking(owners: &[Tree]) -> Vec<&Tree> {
    let blocks = |owner: &&Tree| owner.get("blockOwnerDeletion").and_then(Tree::as_bool) == Some(true);
    owners.iter().filter(blocks).collect()
}

fn deletion<'a>(review: &'a Review<'_>) -> AccessAttributes<'a> {
    AccessAttributes {
        verb: ApiVerb::Delete.as_str(),
        group: &review.kind.gvr.group,
        resource: &review.kind.gvr.resource,
        subresource: review.subresource.unwrap_or_default(),
        namespace: review.namespace,
        name: review.name,
    }
}

/// Blocking the deletion of an owner requires permission to update its finalizers.
fn check_blocking(
    review: &Review<'_>,
    access: &dyn AccessChecker,
    before: &[&Tree],
    after: &[&Tree],
) -> Result<(), Status> {
    let uid = |owner: &Tree| owner.str_at(&[fields::UID]).unwrap_or_default().to_owned();
    let is_new = |owner: &&&Tree| !before.iter().any(|old| uid(old) == uid(owner));
    let new: Vec<&&Tree> = after.iter().filter(is_new).collect();
    if new.is_empty() || access.is_allowed(review.user, &finalizers("*", "*", "", "*")) {
        return Ok(());
    }
    for owner in new {
        let text = |field: &str| owner.str_at(&[field]).unwrap_or_default();
        let (version, kind, name) = (text("apiVersion"), text("kind"), text("name"));
        let Some(owner) = review.find_kind(version, kind) else {
            let why = format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {version} Kind {kind}: no matches for kind {kind:?} in version {version:?}"
            );
            return Err(review::forbidden(review, &why));
        };
        let namespace = if owner.info().is_namespaced() {
            review.namespace
        } else {
            ""
        };
        let gvr = &owner.info().gvr;
        if !access.is_allowed(
            review.user,
            &finalizers(&gvr.group, &gvr.resource, namespace, name),
        ) {
            let why = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>";
            return Err(review::forbidden(review, why));
        }
    }
    Ok(())
}

fn finalizers<'a>(
    group: &'a str,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
) -> AccessAttributes<'a> {
    AccessAttributes {
        verb: ApiVerb::Update.as_str(),
        group,
        resource,
        subresource: "finalizers",
        namespace,
        name,
    }
}
