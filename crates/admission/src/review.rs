//! Helpers for plugins: matching a review, rejecting it, reading its object and other objects.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use setpoint_api::{GroupResource, Status, Stored};
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::Tree;
use setpoint_strategy::meta;

/// Whether the review is of this resource, not of a subresource.
pub(crate) fn is_resource(review: &Review<'_>, group: &str, resource: &str) -> bool {
    review.subresource.is_none() && is_resource_or_subresource(review, group, resource)
}

/// Whether the review is of this resource or of one of its subresources.
pub(crate) fn is_resource_or_subresource(review: &Review<'_>, group: &str, resource: &str) -> bool {
    review.kind.gvr.resource == resource && review.kind.gvr.group == group
}

/// Whether a pod is created.
pub(crate) fn creates_pod(review: &Review<'_>) -> bool {
    review.operation == Operation::Create && is_resource(review, "", "pods")
}

/// The 403 status of a rejected write, in the form that all plugins share.
pub(crate) fn forbidden(review: &Review<'_>, why: &str) -> Status {
    let generated = || {
        review
            .object
            .as_deref()
            .map(|object| meta::str(object, "generateName"))
    };
    let name = match review.name {
        "" => generated().filter(|name| !name.is_empty()).unwrap_or("Unknown"),
        name => name,
    };
    Status::forbidden(&review.kind.gvr.group_resource(), name, why)
}

/// The cached objects of a resource in a namespace; with an empty namespace, all of them.
pub(crate) fn list(review: &Review<'_>, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Stored>> {
    let cache = review.caches().cache(&GroupResource::new(group, resource));
    let Some(cache) = cache else {
        return Vec::new();
    };
    let snapshot = cache.snapshot();
    match namespace {
        "" => snapshot.iter().cloned().collect(),
        namespace => snapshot.in_namespace(namespace).cloned().collect(),
    }
}

/// The view of an object, decoded once and shared; the default if it cannot be decoded.
pub(crate) fn view<T: DeserializeOwned + Default + Send + Sync + 'static>(object: &Stored) -> Arc<T> {
    object.view().unwrap_or_default()
}

/// The integer at a path; zero if it is absent.
pub(crate) fn int_at(object: &Tree, path: &[&str]) -> i64 {
    object.at(path).and_then(Tree::as_i64).unwrap_or_default()
}

/// The boolean at a path; false if it is absent.
pub(crate) fn bool_at(object: &Tree, path: &[&str]) -> bool {
    object.at(path).and_then(Tree::as_bool).unwrap_or_default()
}

/// Whether there is a value at a path.
pub(crate) fn has(object: &Tree, path: &[&str]) -> bool {
    object.at(path).is_some_and(|value| !value.is_null())
}

/// Appends to a list field, which may be absent.
pub(crate) fn push(object: &mut Tree, list: &str, item: Tree) {
    match object.map_or_default().entry(list) {
        Tree::List(items) => items.push(item),
        absent => *absent = Tree::from(vec![item]),
    }
}
