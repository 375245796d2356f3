//! Access checks of admission plugins, by the API server's authorizers.

use std::sync::Arc;

use setpoint_admission::AccessAttributes;
use setpoint_api::User;
use setpoint_auth::authorize::{AccessTarget, Attributes, Authorize};

/// Checks access with the server's authorizer. Plugins cannot await: a webhook blocks the thread of the request.
pub(super) struct AuthorizerAccessChecker(pub(super) Arc<dyn Authorize>);

impl setpoint_admission::AccessChecker for AuthorizerAccessChecker {
    fn is_allowed(&self, user: &User, attributes: &AccessAttributes<'_>) -> bool {
        let object = AccessTarget::Resource {
            group: attributes.group,
            resource: attributes.resource,
            subresource: attributes.subresource,
            namespace: attributes.namespace,
            name: attributes.name,
        };
        self.0
            .authorize(user, &Attributes::new(attributes.verb, object))
            .wait()
            .is_allowed()
    }
}

impl std::fmt::Debug for AuthorizerAccessChecker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuthorizerAccessChecker")
    }
}
