//! [`Selector`]: the label selectors for the namespace and for the object of a request.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use setpoint_api::selector::LabelSelector;
use setpoint_api::{GroupResource, Key, Status, Stored};
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::Tree;
use setpoint_strategy::{label_selector, meta};

/// A label selector, or why it is none. It has been validated when its object was written, so that an error is rare.
#[derive(Debug)]
pub(super) struct Selector(Result<LabelSelector, String>);

impl Selector {
    /// Whether the namespace of the request is selected. Requests for cluster-scoped objects always are, except those
    /// for Namespaces, which are selected by their own labels.
    pub(super) fn selects_namespace(&self, review: &Review<'_>) -> Result<bool, Status> {
        if namespace_of(review).is_empty() && !is_namespace(review) {
            return Ok(true);
        }
        let selector = self.parsed()?;
        if selector.is_empty() {
            return Ok(true);
        }
        let writes = matches!(review.operation, Operation::Create | Operation::Update);
        match review.object.as_deref() {
            Some(object) if is_namespace(review) && review.subresource.is_none() && writes => {
                Ok(selects_tree(selector, object))
            }
            _ => Ok(selects_stored(
                selector,
                &*find_namespace(review, namespace_of(review))?,
            )),
        }
    }

    /// Whether the object is selected, in its new or in its old state.
    pub(super) fn selects_object(&self, review: &Review<'_>) -> Result<bool, Status> {
        let selector = self.parsed()?;
        if selector.is_empty() {
            return Ok(true);
        }
        let object = review.object.as_deref();
        let is_new = object.is_some_and(|object| has_metadata(review) && selects_tree(selector, object));
        let is_old = match review.old_body {
            Some(old) => selects_tree(selector, old),
            None => review.old.is_some_and(|old| selects_stored(selector, old)),
        };
        Ok(is_new || is_old)
    }

    fn parsed(&self) -> Result<&LabelSelector, Status> {
        self.0.as_ref().map_err(Status::internal)
    }
}

impl Default for Selector {
    fn default() -> Self {
        Self(Ok(LabelSelector::default()))
    }
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Tree::deserialize(deserializer).map(|selector| Self(label_selector::parse(&selector)))
    }
}

/// The namespace of a request: for a Namespace its own name.
pub(crate) fn namespace_of<'a>(review: &Review<'a>) -> &'a str {
    match is_namespace(review) {
        true => review.name,
        false => review.namespace,
    }
}

/// The Namespace of a name, from the cache or else from the store.
pub(crate) fn find_namespace(review: &Review<'_>, name: &str) -> Result<Arc<Stored>, Status> {
    let (resource, key) = (namespaces(), Key::new("", name));
    let cache = review.caches().cache(&resource);
    let cached = cache.and_then(|cache| cache.find(&key));
    let found = cached.or_else(|| review.find(&resource, &key));
    found.ok_or_else(|| Status::not_found(&resource, name))
}

fn namespaces() -> GroupResource {
    GroupResource::new("", "namespaces")
}

fn is_namespace(review: &Review<'_>) -> bool {
    let gvr = &review.kind.gvr;
    gvr.resource == "namespaces" && gvr.group.is_empty()
}

/// The options of a connect have no labels, and are never selected.
fn has_metadata(review: &Review<'_>) -> bool {
    review.operation != Operation::Connect
}

fn selects_tree(selector: &LabelSelector, object: &Tree) -> bool {
    let labels = meta::find(object, "labels");
    selector.matches(|label| labels?.get(label)?.as_str())
}

fn selects_stored(selector: &LabelSelector, object: &Stored) -> bool {
    selector.matches(|label| object.label(label))
}
