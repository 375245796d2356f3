//! Short ways to ask what a write is about, and to refuse it.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use setpoint_api::{GroupResource, Status, Stored};
use setpoint_kinds::meta;
use setpoint_registry::{Operation, Review};
use setpoint_schema::Tree;

/// Whether the write is one of this resource itself, not of a part of it.
pub(crate) fn is(review: &Review<'_>, group: &str, resource: &str) -> bool {
    review.subresource.is_none() && is_any(review, group, resource)
}

/// Whether the write is one of this resource or of any part of it.
pub(crate) fn is_any(review: &Review<'_>, group: &str, resource: &str) -> bool {
    review.kind.gvr.resource == resource && review.kind.gvr.group == group
}

/// Whether a pod itself is created.
pub(crate) fn creates_pod(review: &Review<'_>) -> bool {
    review.operation == Operation::Create && is(review, "", "pods")
}

/// A refusal in the form all rules share.
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

/// The objects of a resource that are in a namespace, or all of a cluster's own.
pub(crate) fn all(review: &Review<'_>, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Stored>> {
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

/// What a rule reads of an object; decoded once, and shared.
pub(crate) fn view<T: DeserializeOwned + Default + Send + Sync + 'static>(object: &Stored) -> Arc<T> {
    object.view().unwrap_or_default()
}

/// A number below an object.
pub(crate) fn int(object: &Tree, path: &[&str]) -> i64 {
    object.at(path).and_then(Tree::as_i64).unwrap_or_default()
}

/// Whether something below an object says yes.
pub(crate) fn flag(object: &Tree, path: &[&str]) -> bool {
    object.at(path).and_then(Tree::as_bool).unwrap_or_default()
}

/// Whether something stands there.
pub(crate) fn has(object: &Tree, path: &[&str]) -> bool {
    object.at(path).is_some_and(|value| !value.is_null())
}

/// Adds to the list under a key, which may not be there yet.
pub(crate) fn push(object: &mut Tree, list: &str, item: Tree) {
    match object.map_or_default().entry(list) {
        Tree::List(items) => items.push(item),
        absent => *absent = Tree::from(vec![item]),
    }
}
