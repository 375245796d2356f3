//! Authorization: whether a user may make a request.
//!
//! One file per authorizer. A [`Chain`] tries them in order; the first that has an opinion decides, and a request that no
//! authorizer allows is denied. [`without_rbac`] is the chain without RBAC rules, [`ChainBuilder`] makes that of a cluster.

use std::sync::Arc;

use setpoint_api::selector::FieldSelector;
use setpoint_api::{GroupResource, Status, User};

pub mod always;
pub mod chain;
pub mod config;
pub mod configured;
pub mod masters;
pub mod match_conditions;
pub mod node;
pub mod public;
pub mod rbac;
pub mod reason;
pub mod rule;
pub mod user_rules;
pub mod webhook;

pub use always::{AlwaysAllow, AlwaysDeny};
pub use chain::{Chain, without_rbac};
pub use config::AuthorizerConfig;
pub use configured::{ChainBuilder, ConfiguredAuthorizer, ReloadableAuthorizer};
pub use masters::Masters;
pub use match_conditions::MatchConditions;
pub use node::NodeAuthorizer;
pub use public::PublicPaths;
pub use rbac::Rbac;
pub use reason::Reason;
pub use rule::PolicyRule;
pub use user_rules::UserRules;
pub use webhook::{FailurePolicy, WebhookAuthorizer, WebhookOptions};

use crate::maybe_future::MaybeFuture;

/// The attributes of a request that authorizers decide by (upstream: `authorizer.Attributes`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes<'a> {
    pub verb: &'a str,
    pub target: AccessTarget<'a>,
    /// The API version of the resource; empty if not specified.
    pub version: &'a str,
    /// The field selector of a list or a watch.
    pub fields: Option<&'a FieldSelector>,
}

/// The resource or path that the verb applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessTarget<'a> {
    /// A resource of the API. An empty string means: not specified.
    Resource {
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        namespace: &'a str,
        name: &'a str,
    },
    /// A non-resource path.
    Path(&'a str),
}

/// The decision of an authorizer, with its reason.
#[derive(Debug, Clone)]
pub enum Decision {
    Allowed(Reason),
    /// Denied; no other authorizer is tried.
    Denied(Reason),
    /// No opinion; the next authorizer is tried.
    NoOpinion(Reason),
}

/// Decides by one set of rules (upstream: `authorizer.Authorizer`).
pub trait Authorize: Send + Sync {
    fn authorize<'a>(&'a self, user: &'a User, attributes: &'a Attributes<'a>) -> MaybeFuture<'a, Decision>;

    /// The rules by which this authorizer allows requests of a user in a namespace (upstream: `RuleResolver`).
    fn rules_for(&self, _user: &User, _namespace: &str) -> UserRules {
        UserRules::default()
    }
}

// === impl Attributes ===

impl<'a> Attributes<'a> {
    /// A verb on a target, without a field selector.
    pub fn new(verb: &'a str, object: AccessTarget<'a>) -> Self {
        Self {
            verb,
            target: object,
            version: "",
            fields: None,
        }
    }
}

// === impl Decision ===

impl Decision {
    /// No opinion, without a reason.
    pub const NO_OPINION: Self = Self::NoOpinion(Reason::None);

    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    pub fn reason(&self) -> &Reason {
        match self {
            Self::Allowed(reason) | Self::Denied(reason) | Self::NoOpinion(reason) => reason,
        }
    }
}

impl<T: Authorize + ?Sized> Authorize for Arc<T> {
    fn authorize<'a>(&'a self, user: &'a User, attributes: &'a Attributes<'a>) -> MaybeFuture<'a, Decision> {
        (**self).authorize(user, attributes)
    }

    fn rules_for(&self, user: &User, namespace: &str) -> UserRules {
        (**self).rules_for(user, namespace)
    }
}

/// Authorizes a request; if it is not allowed, returns the error status.
pub async fn check(
    authorizer: &dyn Authorize,
    user: &User,
    attributes: &Attributes<'_>,
) -> Result<(), Box<Status>> {
    let decision = authorizer.authorize(user, attributes).resolve().await;
    require_allowed(user, attributes, &decision)
}

/// The error status of a request that is not allowed: 403, or 500 if an authorizer failed.
pub fn require_allowed(
    user: &User,
    attributes: &Attributes<'_>,
    decision: &Decision,
) -> Result<(), Box<Status>> {
    match decision {
        Decision::Allowed(_) => Ok(()),
        Decision::Denied(Reason::Failed(error)) | Decision::NoOpinion(Reason::Failed(error)) => {
            Err(Box::new(Status::internal(error)))
        }
        Decision::Denied(reason) | Decision::NoOpinion(reason) => {
            Err(Box::new(forbidden_with_reason(user, attributes, reason)))
        }
    }
}

/// The 403 status for a request that is not allowed.
pub fn forbidden(user: &User, attributes: &Attributes<'_>) -> Status {
    forbidden_with_reason(user, attributes, &Reason::None)
}

/// The 403 status for a request that is not allowed, with the authorizers' reason.
pub fn forbidden_with_reason(user: &User, attributes: &Attributes<'_>, reason: &Reason) -> Status {
    match attributes.target {
        AccessTarget::Path(path) => {
            let mut status = Status::forbidden_path(&user.name, attributes.verb, path);
            reason.append_to(&mut status.message);
            status
        }
        AccessTarget::Resource {
            group,
            resource,
            name,
            ..
        } => {
            let mut why = escape_html(&cannot_message(user, attributes));
            reason.append_to(&mut why);
            Status::forbidden(&GroupResource::new(group, resource), name, &why)
        }
    }
}

/// `User "x" cannot get resource ...`
fn cannot_message(user: &User, attributes: &Attributes<'_>) -> String {
    let (user, verb) = (&user.name, attributes.verb);
    let AccessTarget::Resource {
        group,
        resource,
        subresource,
        namespace,
        ..
    } = attributes.target
    else {
        return String::new();
    };
    let resource = match subresource {
        "" => resource.to_owned(),
        subresource => format!("{resource}/{subresource}"),
    };
    let scope = match namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    format!("User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {scope}")
}

/// Escapes HTML, as kube-apiserver does.
fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
