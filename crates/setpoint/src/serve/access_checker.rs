//! What callers may do, as admission asks it.

use std::sync::Arc;

use setpoint_admission::AccessAttributes;
use setpoint_api::User;
use setpoint_auth::authorize::{AccessTarget, Attributes, Authorize, Chain};

/// The rights that the authorizers know of.
pub(super) struct AuthorizerAccessChecker(pub(super) Arc<Chain>);

impl setpoint_admission::AccessChecker for AuthorizerAccessChecker {
    fn is_allowed(&self, user: &User, right: &AccessAttributes<'_>) -> bool {
        let object = AccessTarget::Resource {
            group: right.group,
            resource: right.resource,
            subresource: right.subresource,
            namespace: right.namespace,
            name: right.name,
        };
        self.0
            .authorize(user, &Attributes::new(right.verb, object))
            .is_allowed()
    }
}

impl std::fmt::Debug for AuthorizerAccessChecker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rights")
    }
}
