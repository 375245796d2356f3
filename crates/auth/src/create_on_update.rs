//! Creates by an update or an apply.
//!
//! Both may create the object if it does not exist. The request was authorized as an update or a patch, so permission to
//! create is checked here, once it is known that the object is new.
//!
//! The rule is that of `withAuthorization` in `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/update.go`.

use std::fmt;
use std::future::ready;
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

    fn check(&self, review: &Review<'_>) -> Result<(), Status> {
        if review.operation != Operation::Create || review.verb == ApiVerb::Create {
            return Ok(());
        }
        let gvr = &review.kind.gvr;
        let target = AccessTarget::Resource {
            group: &gvr.group,
            resource: &gvr.resource,
            subresource: review.subresource.unwrap_or_default(),
            namespace: review.namespace,
            name: review.name,
        };
        let attributes = Attributes::new(ApiVerb::Create.as_str(), target);
        authorize::check(&*self.authorizer, review.user, &attributes).map_err(|status| *status)
    }
}

impl<A: Admit> Admit for CreateAuthorization<A> {
    fn mutate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        self.rules.mutate(review)
    }

    fn validate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        match self.check(review) {
            Ok(()) => self.rules.validate(review),
            Err(forbidden) => Box::pin(ready(Err(forbidden))),
        }
    }
}

impl<A> fmt::Debug for CreateAuthorization<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateAuthorization").finish_non_exhaustive()
    }
}
