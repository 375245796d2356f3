//! Access checks of admission plugins, by the API server's authorizers.

use std::sync::Arc;

use setpoint_admission::AccessAttributes;
use setpoint_api::User;
use setpoint_api::selector::FieldSelector;
use setpoint_auth::authorize::{self, AccessTarget, Attributes, Authorize, Reason};
use setpoint_auth::service_account;
use setpoint_cel::{Check, CheckTarget, Decision};

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

    fn decide(&self, user: &User, check: &Check) -> Decision {
        let account = check.service_account.as_ref().map(|(namespace, name)| User {
            name: service_account::user_name(namespace, name),
            groups: service_account::groups(namespace),
            ..User::default()
        });
        let user = account.as_ref().unwrap_or(user);
        let decision = match &check.target {
            CheckTarget::Path(path) => self
                .0
                .authorize(user, &Attributes::new(&check.verb, AccessTarget::Path(path)))
                .wait(),
            CheckTarget::Resource(resource) => {
                let target = AccessTarget::Resource {
                    group: &resource.group,
                    resource: &resource.resource,
                    subresource: &resource.subresource,
                    namespace: &resource.namespace,
                    name: &resource.name,
                };
                // A selector that cannot be parsed is left out.
                let parse = |text: &String| text.parse::<FieldSelector>().ok();
                let fields = resource.field_selector.as_ref().and_then(parse);
                let attributes = Attributes {
                    version: "*",
                    fields: fields.as_ref(),
                    ..Attributes::new(&check.verb, target)
                };
                self.0.authorize(user, &attributes).wait()
            }
            CheckTarget::Authorizer | CheckTarget::Group(_) => authorize::Decision::NO_OPINION,
        };
        decision_of(&decision)
    }
}

fn decision_of(decision: &authorize::Decision) -> Decision {
    let error = match decision.reason() {
        Reason::Failed(error) => Some(error.clone()),
        _ => None,
    };
    Decision {
        allowed: decision.is_allowed(),
        reason: match error {
            Some(_) => String::new(),
            None => decision.reason().to_string(),
        },
        error,
    }
}

impl std::fmt::Debug for AuthorizerAccessChecker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuthorizerAccessChecker")
    }
}
