//! Whether a user may do what it asks.
//!
//! One file per authorizer. [`standard`] is the order in which they are asked; the first that has an opinion decides,
//! and what nobody allows is refused.

use setpoint_api::{GroupResource, Status, User};

pub mod masters;
pub mod public;

pub use masters::Masters;
pub use public::PublicPaths;

/// What is asked of the server, in the words access rules are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes<'a> {
    pub verb: &'a str,
    pub object: Object<'a>,
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

/// What an authorizer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Allowed,
    /// Refused whatever others say.
    Denied,
    /// This authorizer does not know; the next is asked.
    NoOpinion,
}

/// Decides by one set of rules.
pub trait Authorize: Send + Sync {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Decision;
}

/// The authorizers of a server, in the order they are asked.
pub fn standard() -> Vec<Box<dyn Authorize>> {
    vec![Box::new(Masters), Box::new(PublicPaths)]
}

/// Several authorizers are one: the first with an opinion decides.
impl Authorize for Vec<Box<dyn Authorize>> {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        let mut opinions = self.iter().map(|one| one.authorize(user, attributes));
        opinions
            .find(|decision| *decision != Decision::NoOpinion)
            .unwrap_or(Decision::NoOpinion)
    }
}

/// Asks the authorizer; what is not allowed comes back as the refusal the caller is told.
pub fn check(
    authorizer: &dyn Authorize,
    user: &User,
    attributes: &Attributes<'_>,
) -> Result<(), Box<Status>> {
    match authorizer.authorize(user, attributes) {
        Decision::Allowed => Ok(()),
        Decision::Denied | Decision::NoOpinion => Err(Box::new(refusal(user, attributes))),
    }
}

/// What a caller is told who may not do this.
pub fn refusal(user: &User, attributes: &Attributes<'_>) -> Status {
    let (user, verb) = (&user.name, attributes.verb);
    match attributes.object {
        Object::Path(path) => Status::forbidden_path(user, verb, path),
        Object::Resource {
            group,
            resource,
            subresource,
            namespace,
            name,
        } => {
            let part = if subresource.is_empty() {
                resource.to_owned()
            } else {
                format!("{resource}/{subresource}")
            };
            let place = match namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            let why = format!("User {user:?} cannot {verb} resource {part:?} in API group {group:?} {place}");
            Status::forbidden(&GroupResource::new(group, resource), name, &why)
        }
    }
}

#[cfg(test)]
mod tests;
