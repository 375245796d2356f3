//! The authorizer of expressions: checks for the user of the request, or for a service account that the expression names.

use std::sync::Arc;

use setpoint_api::User;
use setpoint_cel::{Authorizer, Check, Decision, ResourceCheck};
use setpoint_registry_api::Review;

use crate::chain::AccessChecker;

/// The values of the variables `authorizer` and `authorizer.requestResource`.
#[derive(Debug)]
pub(crate) struct RequestAuthorizer {
    pub(super) checks: Arc<dyn Authorizer>,
    pub(super) resource: ResourceCheck,
}

/// Checks for the user of the request.
#[derive(Debug)]
struct UserChecks {
    /// Without it, all users are allowed everything.
    access: Option<Arc<dyn AccessChecker>>,
    user: Arc<User>,
}

impl RequestAuthorizer {
    pub(crate) fn new(review: &Review<'_>, access: Option<Arc<dyn AccessChecker>>) -> Self {
        let user = review.user.clone();
        Self {
            checks: Arc::new(UserChecks { access, user }),
            resource: ResourceCheck {
                group: review.kind.gvr.group.to_string(),
                resource: review.kind.gvr.resource.to_string(),
                subresource: review.subresource.unwrap_or_default().to_owned(),
                namespace: review.namespace.to_owned(),
                name: review.name.to_owned(),
                ..ResourceCheck::default()
            },
        }
    }
}

impl Authorizer for UserChecks {
    fn authorize(&self, check: &Check) -> Decision {
        let Some(access) = &self.access else {
            return Decision {
                allowed: true,
                ..Decision::default()
            };
        };
        access.decide(&self.user, check)
    }
}
