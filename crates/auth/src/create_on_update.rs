//! Creates by an update or an apply.
//!
//! Both may create the object if it does not exist. The request was authorized as an update or a patch, so permission to
//! create is checked here, once it is known that the object is new.
//!
//! The rule is that of `withAuthorization` in `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/update.go`.

use std::fmt;
use std::sync::Arc;

use setpoint_api::{ApiVerb, Status};
use setpoint_registry_api::{Admit, AdmitFuture, Operation, Review};

use crate::authorize::{self, AccessTarget, Attributes, Authorize};

/// Wraps admission with the authorization of creates, right before the validating plugins.
pub struct CreateAuthorization<A> {
    authorizer: Arc<dyn Authorize>,
    rules: A,
}

impl<A: Admit> CreateAuthorization<A> {
    pub fn new(authorizer: Arc<dyn Authorize>, rules: A) -> Self {
        Self { authorizer, rules }
    }

    async fn check(&self, review: &Review<'_>) -> Result<(), Status> {
        let gvr = &review.kind.gvr;
        let target = AccessTarget::Resource {
            group: &gvr.group,
            resource: &gvr.resource,
            subresource: review.subresource.unwrap_or_default(),
            namespace: review.namespace,
            name: review.name,
        };
        let attributes = Attributes {
            version: &gvr.version,
            ..Attributes::new(ApiVerb::Create.as_str(), target)
        };
        let allowed = authorize::check(&*self.authorizer, review.user, &attributes).await;
        allowed.map_err(|status| *status)
    }
}

impl<A: Admit> Admit for CreateAuthorization<A> {
    fn mutate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        self.rules.mutate(review)
    }

    fn validate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        if review.operation != Operation::Create || review.verb == ApiVerb::Create {
            return self.rules.validate(review);
        }
        Box::pin(async move {
            self.check(review).await?;
            self.rules.validate(review).await
        })
    }
}

impl<A> fmt::Debug for CreateAuthorization<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateAuthorization").finish_non_exhaustive()
    }
}
