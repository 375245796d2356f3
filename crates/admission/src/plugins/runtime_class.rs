//! RuntimeClass: a pod gets the overhead of its RuntimeClass, and its node selector and tolerations.

use setpoint_api::{GroupResource, Key, Status};
use setpoint_registry_api::Review;
use setpoint_schema::{Map, Tree, fields};

use crate::chain::Plugin;
use crate::review;

/// Sets and checks the overhead and scheduling of pods with a RuntimeClass.
#[derive(Debug)]
pub(crate) struct RuntimeClass;

impl Plugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !review::creates_pod(review) {
            return Ok(());
        }
        let Some(class) = find_class(review)? else {
            return Ok(());
        };
        let overhead = class
            .at(&[fields::OVERHEAD, fields::POD_FIXED])
            .cloned()
            .unwrap_or_default();
        let Some(pod) = review.object.as_deref_mut() else {
            return Ok(());
        };
        let spec = pod.child(fields::SPEC);
        let own = spec.get("overhead").cloned().unwrap_or_default();
        if review::has(&class, &["overhead"]) && !own.is_null() && !own.semantic_eq(&overhead) {
            let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
            return Err(review::forbidden(review, why));
        }
        if !overhead.is_null() {
            spec.set(&[fields::OVERHEAD], overhead);
        }
        let scheduling = class.get("scheduling").cloned().unwrap_or_default();
        match merge_scheduling(spec, &scheduling) {
            Ok(()) => Ok(()),
            Err(why) => Err(review::forbidden(review, &why)),
        }
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !review::creates_pod(review) {
            return Ok(());
        }
        let class = find_class(review)?;
        let expected = class
            .as_ref()
            .and_then(|class| class.at(&[fields::OVERHEAD, fields::POD_FIXED]));
        let own = review
            .object
            .as_deref()
            .and_then(|pod| pod.at(&[fields::SPEC, fields::OVERHEAD]));
        match (expected, own) {
            (Some(expected), own) if !own.is_some_and(|own| own.semantic_eq(expected)) => {
                Err(review::forbidden(
                    review,
                    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
                ))
            }
            (None, Some(own)) if !own.is_null() => Err(review::forbidden(
                review,
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            )),
            _ => Ok(()),
        }
    }
}

fn find_class(review: &Review<'_>) -> Result<Option<Tree>, Status> {
    let pod = review.object.as_deref();
    let Some(name) = pod.and_then(|pod| pod.str_at(&[fields::SPEC, fields::RUNTIME_CLASS_NAME])) else {
        return Ok(None);
    };
    let classes = GroupResource::new("node.k8s.io", "runtimeclasses");
    let found = review.find(&classes, &Key::new("", name));
    let found = found.and_then(|class| review.decode(&classes, &class));
    match found {
        Some(class) => Ok(Some(class)),
        None => {
            let why = format!("pod rejected: RuntimeClass {name:?} not found");
            Err(review::forbidden(review, &why))
        }
    }
}

fn merge_scheduling(spec: &mut Tree, scheduling: &Tree) -> Result<(), String> {
    let selector = scheduling.get("nodeSelector").and_then(Tree::as_map);
    for (key, value) in selector.into_iter().flat_map(Map::iter) {
        let expected = value.as_str().unwrap_or_default();
        let own = spec.at(&[fields::NODE_SELECTOR, key]).and_then(Tree::as_str);
        if let Some(own) = own
            && own != expected
        {
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {expected}; pod.spec.nodeSelector[{key}] = {own}"
            ));
        }
        spec.set(&[fields::NODE_SELECTOR, key], expected);
    }
    for toleration in scheduling.items(fields::TOLERATIONS) {
        if !spec
            .items(fields::TOLERATIONS)
            .iter()
            .any(|own| own.semantic_eq(toleration))
        {
            review::push(spec, "tolerations", toleration.clone());
        }
    }
    Ok(())
}
