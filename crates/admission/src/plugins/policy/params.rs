//! Parameters of policies: objects of the policy's `paramKind` that a binding's `paramRef` names or selects.

use std::sync::Arc;

use serde::Deserialize;
use setpoint_api::{Key, Stored};
use setpoint_registry_api::Review;
use setpoint_schema::Tree;
use setpoint_strategy::{Kind, label_selector};

use crate::matching::namespace_of;

/// The kind of a policy's parameters.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ParamKind {
    api_version: String,
    kind: String,
}

/// The parameters of a binding.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ParamRef {
    name: String,
    namespace: String,
    selector: Option<Tree>,
    parameter_not_found_action: String,
}

/// An object that expressions read as `params`.
#[derive(Debug, Clone)]
pub(super) struct Param {
    pub(super) key: Key,
    pub(super) tree: Arc<Tree>,
}

/// The kind of the parameters; none if the policy has none. One that is not served is an error.
pub(super) fn find_kind(
    review: &Review<'_>,
    kind: Option<&ParamKind>,
) -> Result<Option<Arc<dyn Kind>>, String> {
    let Some(kind) = kind else { return Ok(None) };
    let found = review.find_kind(&kind.api_version, &kind.kind);
    found.map(Some).ok_or_else(|| {
        let slash = if kind.api_version.contains('/') { "" } else { "/" };
        let (version, kind) = (&kind.api_version, &kind.kind);
        format!("failed to find resource referenced by paramKind: '{slash}{version}, Kind={kind}'")
    })
}

/// The parameters for a review: one absent one if the policy or the binding has none, and none at all if nothing is found
/// and that is allowed.
pub(super) fn collect(
    review: &Review<'_>,
    kind: Option<&ParamKind>,
    reference: Option<&ParamRef>,
) -> Result<Vec<Option<Param>>, String> {
    let (Some(kind), Some(reference)) = (find_kind(review, kind)?, reference) else {
        return Ok(vec![None]);
    };
    let namespace = namespace(review, &*kind, reference)?;
    let found = match reference.name.as_str() {
        "" => select(review, &*kind, namespace, reference)?,
        name => find(review, &*kind, &Key::new(namespace, name))
            .into_iter()
            .collect(),
    };
    let params: Vec<Option<Param>> = found
        .iter()
        .filter_map(|object| to_param(&*kind, object))
        .map(Some)
        .collect();
    if params.is_empty() && reference.parameter_not_found_action == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(params)
}

/// The namespace of the parameters: that of the reference or else that of the request; none for a cluster-scoped kind.
fn namespace<'a>(review: &Review<'a>, kind: &dyn Kind, reference: &'a ParamRef) -> Result<&'a str, String> {
    let is_namespaced = kind.info().is_namespaced();
    let namespace = match reference.namespace.as_str() {
        "" => namespace_of(review),
        named => named,
    };
    match is_namespaced {
        true if namespace.is_empty() => {
            let why =
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            Err(why.to_owned())
        }
        true => Ok(namespace),
        false if !reference.namespace.is_empty() => {
            Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned())
        }
        false => Ok(""),
    }
}

/// A named object, from the cache or else from the store, since the cache may not have it yet.
fn find(review: &Review<'_>, kind: &dyn Kind, key: &Key) -> Option<Arc<Stored>> {
    let resource = kind.info().storage.group_resource();
    let cached = review.caches().cache(&resource).and_then(|cache| cache.find(key));
    cached.or_else(|| review.find(&resource, key))
}

fn select(
    review: &Review<'_>,
    kind: &dyn Kind,
    namespace: &str,
    reference: &ParamRef,
) -> Result<Vec<Arc<Stored>>, String> {
    let selector = label_selector::parse(reference.selector.as_ref().unwrap_or(&Tree::Null))?;
    let objects = crate::review::list(
        review,
        &kind.info().storage.group,
        &kind.info().storage.resource,
        namespace,
    );
    let is_selected = |object: &Arc<Stored>| selector.matches(|label| object.label(label));
    Ok(objects.into_iter().filter(is_selected).collect())
}

/// An object in the version of the parameters. One that cannot be read counts as absent.
fn to_param(kind: &dyn Kind, object: &Arc<Stored>) -> Option<Param> {
    let versioned = kind.to_request_version(object).ok()?;
    Some(Param {
        key: object.key().clone(),
        tree: versioned.view().ok()?,
    })
}
