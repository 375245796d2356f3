//! Authorization: whether a user may make a request.
//!
//! One file per authorizer. A [`Chain`] tries them in order; the first that has an opinion decides, and a request that no
//! authorizer allows is denied. [`without_rbac`] is the chain without RBAC rules, [`cluster_authorizers`] the one with
//! them.

use std::fmt;
use std::sync::Arc;

use setpoint_api::selector::FieldSelector;
use setpoint_api::{GroupResource, Status, User};
use setpoint_cache::Caches;

pub mod masters;
pub mod node;
pub mod public;
pub mod rbac;
pub mod reason;
pub mod rule;

pub use masters::Masters;
pub use node::NodeAuthorizer;
pub use public::PublicPaths;
pub use rbac::Rbac;
pub use reason::Reason;
pub use rule::PolicyRule;

/// The attributes of a request that authorizers decide by (upstream: `authorizer.Attributes`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes<'a> {
    pub verb: &'a str,
    pub target: AccessTarget<'a>,
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
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Decision;
}

/// Authorizers that are tried one after the other.
///
/// Each has the name under which its reason is reported if no authorizer allows the request.
pub struct Chain(Vec<(&'static str, Box<dyn Authorize>)>);

// === impl Attributes ===

impl<'a> Attributes<'a> {
    /// A verb on a target, without a field selector.
    pub fn new(verb: &'a str, object: AccessTarget<'a>) -> Self {
        Self {
            verb,
            target: object,
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

// === impl Chain ===

/// The authorizers of a server without RBAC.
pub fn without_rbac() -> Chain {
    Chain(vec![
        ("privileged", Box::new(Masters)),
        ("public", Box::new(PublicPaths::always())),
    ])
}

/// The authorizers of a cluster, by its RBAC objects. `rbac` is shared with the reviews and the escalation check.
pub fn cluster_authorizers(caches: &Arc<dyn Caches>, rbac: Arc<Rbac>) -> Chain {
    Chain(vec![
        ("kubernetes.io/system-privileged-group", Box::new(Masters)),
        ("node", Box::new(NodeAuthorizer::new(caches.clone()))),
        ("rbac", Box::new(rbac)),
        ("public", Box::new(PublicPaths::until_rules(caches.clone()))),
    ])
}

impl Authorize for Chain {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        let mut reasons = Vec::new();
        for (name, one) in &self.0 {
            match one.authorize(user, attributes) {
                Decision::NoOpinion(Reason::None) => {}
                Decision::NoOpinion(reason) => reasons.push(format!("{name}: {reason}")),
                decided => return decided,
            }
        }
        match reasons.is_empty() {
            true => Decision::NO_OPINION,
            false => Decision::NoOpinion(reasons.join("\n").into()),
        }
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

impl<T: Authorize + ?Sized> Authorize for Arc<T> {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        (**self).authorize(user, attributes)
    }
}

/// Authorizes a request; if it is not allowed, returns the 403 status.
pub fn check(
    authorizer: &dyn Authorize,
    user: &User,
    attributes: &Attributes<'_>,
) -> Result<(), Box<Status>> {
    match authorizer.authorize(user, attributes) {
        Decision::Allowed(_) => Ok(()),
        Decision::Denied(reason) | Decision::NoOpinion(reason) => {
            Err(Box::new(forbidden_with_reason(user, attributes, &reason)))
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
