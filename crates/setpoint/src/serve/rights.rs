//! What callers may do, as admission asks it.

use std::sync::Arc;

use setpoint_admission::Right;
use setpoint_api::User;
use setpoint_auth::authorize::{Attributes, Authorize, Chain, Object};

/// The rights that the authorizers know of.
pub(super) struct Rights(pub(super) Arc<Chain>);

impl setpoint_admission::Rights for Rights {
    fn may(&self, user: &User, right: &Right<'_>) -> bool {
        let object = Object::Resource {
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

impl std::fmt::Debug for Rights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rights")
    }
}
