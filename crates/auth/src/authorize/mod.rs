//! Whether a user may do what it asks.
//!
//! One file per authorizer. A [`Chain`] asks them in order; the first that has an opinion decides, and what nobody
//! allows is refused. [`standard`] is the chain before there are access rules, [`of_cluster`] the one with them.

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
pub use node::Nodes;
pub use public::PublicPaths;
pub use rbac::Rbac;
pub use reason::Reason;
pub use rule::Rule;

/// What is asked of the server, in the words access rules are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes<'a> {
    pub verb: &'a str,
    pub object: Object<'a>,
    /// What a list or a watch is narrowed to.
    pub fields: Option<&'a FieldSelector>,
}

/// What the verb is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object<'a> {
    /// A resource of the API. Empty text means: not given.
    Resource {
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        namespace: &'a str,
        name: &'a str,
    },
    /// A path that is no resource.
    Path(&'a str),
}

/// What an authorizer says, and why.
#[derive(Debug, Clone)]
pub enum Decision {
    Allowed(Reason),
    /// Refused whatever others say.
    Denied(Reason),
    /// This authorizer does not know; the next is asked.
    NoOpinion(Reason),
}

/// Decides by one set of rules.
pub trait Authorize: Send + Sync {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Decision;
}

/// Authorizers that are asked one after the other.
///
/// Each has the name under which its reasons are told when nobody allows the request.
pub struct Chain(Vec<(&'static str, Box<dyn Authorize>)>);

// === impl Attributes ===

impl<'a> Attributes<'a> {
    /// A verb on an object, or on what is not narrowed further.
    pub fn new(verb: &'a str, object: Object<'a>) -> Self {
        Self {
            verb,
            object,
            fields: None,
        }
    }
}

// === impl Decision ===

impl Decision {
    /// No opinion, and nothing to say about it.
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

/// The authorizers of a server that knows no access rules.
pub fn standard() -> Chain {
    Chain(vec![
        ("privileged", Box::new(Masters)),
        ("public", Box::new(PublicPaths::always())),
    ])
}

/// The authorizers of a cluster, by the rules that are stored in it. `rbac` is shared with those who explain or check
/// rules.
pub fn of_cluster(caches: &Arc<dyn Caches>, rbac: Arc<Rbac>) -> Chain {
    Chain(vec![
        ("kubernetes.io/system-privileged-group", Box::new(Masters)),
        ("node", Box::new(Nodes::new(caches.clone()))),
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

/// Asks the authorizer; what is not allowed comes back as the refusal the caller is told.
pub fn check(
    authorizer: &dyn Authorize,
    user: &User,
    attributes: &Attributes<'_>,
) -> Result<(), Box<Status>> {
    match authorizer.authorize(user, attributes) {
        Decision::Allowed(_) => Ok(()),
        Decision::Denied(reason) | Decision::NoOpinion(reason) => {
            Err(Box::new(refusal_because(user, attributes, &reason)))
        }
    }
}

/// What a caller is told who may not do this.
pub fn refusal(user: &User, attributes: &Attributes<'_>) -> Status {
    refusal_because(user, attributes, &Reason::None)
}

/// What a caller is told who may not do this, with the authorizers' words behind it.
pub fn refusal_because(user: &User, attributes: &Attributes<'_>, reason: &Reason) -> Status {
    match attributes.object {
        Object::Path(path) => {
            let mut status = Status::forbidden_path(&user.name, attributes.verb, path);
            reason.append_to(&mut status.message);
            status
        }
        Object::Resource {
            group,
            resource,
            name,
            ..
        } => {
            let mut why = harmless(&cannot(user, attributes));
            reason.append_to(&mut why);
            Status::forbidden(&GroupResource::new(group, resource), name, &why)
        }
    }
}

/// The sentence that says who cannot do what, and where.
fn cannot(user: &User, attributes: &Attributes<'_>) -> String {
    let (user, verb) = (&user.name, attributes.verb);
    let Object::Resource {
        group,
        resource,
        subresource,
        namespace,
        ..
    } = attributes.object
    else {
        return String::new();
    };
    let part = match subresource {
        "" => resource.to_owned(),
        subresource => format!("{resource}/{subresource}"),
    };
    let place = match namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    format!("User {user:?} cannot {verb} resource {part:?} in API group {group:?} {place}")
}

/// The text without what a browser could take for markup.
fn harmless(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
