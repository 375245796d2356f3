//! A node requests tokens that are bound to a pod on it, for an audience that the pod uses.

use setpoint_registry_api::{Operation, Review};
use setpoint_schema::{Tree, fields};

use super::{Outcome, find, forbid, is_allowed, not_found, text, token_audience};
use crate::chain::AccessChecker;

/// The verb on an audience, as resource, for tokens of the account that is its name.
const VERB: &str = "request-serviceaccounts-token-audience";

pub(super) fn check(review: &Review<'_>, node: &str, access: Option<&dyn AccessChecker>) -> Outcome {
    let (Operation::Create, Some("token")) = (review.operation, review.subresource) else {
        return Ok(());
    };
    let Some(request) = review.object.as_deref() else {
        return forbid("unexpected type <nil>");
    };
    let bound = |field: &str| text(request, &[fields::SPEC, fields::BOUND_OBJECT_REF, field]);
    let (name, uid) = (bound(fields::NAME), bound(fields::UID));
    if bound(fields::API_VERSION) != "v1" || bound(fields::KIND) != "Pod" || name.is_empty() {
        return forbid("node requested token not bound to a pod");
    }
    if uid.is_empty() {
        return forbid("node requested token with a pod binding without a uid");
    }
    let Some(pod) = find(review, "pods", review.namespace, name) else {
        return not_found("pods", name);
    };
    if uid != pod.uid() {
        return forbid(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have \
             been deleted and then recreated"
        ));
    }
    if pod.field("spec.nodeName") != Some(node) {
        return forbid("node requested token bound to a pod scheduled on a different node");
    }
    let pod = pod.decode::<Tree>().unwrap_or_default();
    check_audience(review, access, request, &pod)
}

/// A token for an audience that nothing in the pod uses would let the node act as the pod elsewhere.
fn check_audience(
    review: &Review<'_>,
    access: Option<&dyn AccessChecker>,
    request: &Tree,
    pod: &Tree,
) -> Outcome {
    let audiences = request.at(&[fields::SPEC, fields::AUDIENCES]);
    let audience = match audiences.and_then(Tree::as_list).unwrap_or_default() {
        [] => "",
        [audience] => audience.as_str().unwrap_or_default(),
        _ => return forbid("node may only request 0 or 1 audiences"),
    };
    match token_audience::is_used(review, pod, audience) {
        Ok(true) => return Ok(()),
        Ok(false) => {}
        Err(error) => return forbid(format!("error validating audience {audience:?}: {error}")),
    }
    match is_allowed(review, access, VERB, (audience, review.name)) {
        true => Ok(()),
        false => forbid(format!(
            "{} is not authorized to request tokens for audience {audience:?}",
            review.user.name
        )),
    }
}
