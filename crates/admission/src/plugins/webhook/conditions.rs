//! The match conditions of a webhook, evaluated on the request and the object as the webhook would get them.

use std::sync::Arc;

use setpoint_api::Status;
use setpoint_registry_api::Review;

use super::configuration::{FailurePolicy, Webhook};
use crate::admission_request::request_tree;
use crate::chain::AccessChecker;
use crate::expressions::{Inputs, RequestAuthorizer};
use crate::matching::MatchedResource;
use crate::object_form::VersionedObjects;

/// Whether all match conditions of a webhook are true. An error skips the webhook or fails the request, as its
/// `failurePolicy` specifies.
pub(super) async fn hold(
    webhook: &Webhook,
    review: &Review<'_>,
    matched: &MatchedResource,
    access: Option<&Arc<dyn AccessChecker>>,
) -> Result<bool, Status> {
    if webhook.conditions.is_empty() {
        return Ok(true);
    }
    let objects = VersionedObjects::trees(review, matched).await?;
    let request = request_tree(review, matched);
    let authorizer = RequestAuthorizer::new(review, access.cloned());
    let inputs = Inputs {
        object: objects.object.as_ref(),
        old_object: objects.old_object.as_ref(),
        request: &request,
        namespace: None,
        params: None,
        authorizer: &authorizer,
    };
    match (webhook.conditions.evaluate(&inputs, &[]), webhook.failure_policy) {
        (Ok(holds), _) => Ok(holds),
        (Err(_), FailurePolicy::Ignore) => Ok(false),
        (Err(why), FailurePolicy::Fail) => {
            let resource = review.kind.gvr.group_resource();
            Err(Status::forbidden(&resource, review.name, &why))
        }
    }
}
