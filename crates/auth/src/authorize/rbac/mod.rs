//! Roles and bindings: who is granted which rules.
//!
//! The objects are compiled into [`Grants`] once and then kept up to date by the caches' own news: a check that finds
//! nothing new looks only at the bindings of the user. Nothing runs in the background; whoever asks first after a
//! change takes it over.
//!
//! The rules are those of `plugin/pkg/auth/authorizer/rbac/rbac.go` in Kubernetes.

use std::fmt;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockWriteGuard};
use setpoint_api::{GroupResource, User};
use setpoint_cache::{Caches, Subscription};

mod grants;
mod view;

pub use grants::{Grant, Grants, Resolved};

use super::{Attributes, Authorize, Decision, Object, Reason, Rule};

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";
const ROLES: &str = "roles";
const CLUSTER_ROLES: &str = "clusterroles";
const ROLE_BINDINGS: &str = "rolebindings";
const CLUSTER_ROLE_BINDINGS: &str = "clusterrolebindings";

const RESOURCES: [&str; 4] = [ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS];

/// Allows what roles say that are bound to the user.
pub struct Rbac {
    caches: Arc<dyn Caches>,
    /// Absent until somebody asks.
    live: RwLock<Option<Live>>,
}

/// The compiled grants and where they come from.
#[derive(Debug, Default)]
struct Live {
    /// Everything these have told is in `grants`.
    feeds: Vec<(&'static str, Subscription)>,
    grants: Grants,
}

/// All rules of a user in a namespace.
#[derive(Debug, Default)]
pub struct Rules {
    pub rules: Vec<Rule>,
    /// Bindings whose role is not there.
    pub problems: Vec<String>,
}

impl Rbac {
    pub fn new(caches: Arc<dyn Caches>) -> Self {
        Self {
            caches,
            live: RwLock::new(None),
        }
    }

    /// All rules of the user, those of the whole cluster and those of the namespace.
    pub fn rules_of(&self, user: &User, namespace: &str) -> Rules {
        self.with_grants(|grants| {
            let mut found = Rules::default();
            grants.visit(user, namespace, |_, resolved| {
                match resolved {
                    Resolved::Rules(rules) => found.rules.extend_from_slice(rules),
                    Resolved::Missing(problem) => found.problems.push(problem),
                }
                true
            });
            found
        })
    }

    /// The rules of a role that a binding in this namespace names.
    pub fn rules_of_role(&self, kind: &str, name: &str, namespace: &str) -> Option<Vec<Rule>> {
        self.with_grants(|grants| match grants.resolve(kind, name, namespace) {
            Resolved::Rules(rules) => Some(rules.to_vec()),
            Resolved::Missing(_) => None,
        })
    }

    /// Shows the grants as of now.
    fn with_grants<T>(&self, look: impl FnOnce(&Grants) -> T) -> T {
        {
            let live = self.live.read();
            let fresh = |live: &&Live| live.is_whole(&*self.caches) && live.is_fresh();
            if let Some(live) = live.as_ref().filter(fresh) {
                return look(&live.grants);
            }
        }
        let mut live = self.live.write();
        let caught_up = live
            .as_mut()
            .is_some_and(|live| live.is_whole(&*self.caches) && live.catch_up());
        if !caught_up {
            *live = Some(Live::start(&*self.caches));
        }
        let live = RwLockWriteGuard::downgrade(live);
        look(&live.as_ref().expect("it was just filled").grants)
    }
}

impl Authorize for Rbac {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        let namespace = match attributes.object {
            Object::Resource { namespace, .. } => namespace,
            Object::Path(_) => "",
        };
        self.with_grants(|grants| decide(grants, user, namespace, attributes))
    }
}

fn decide(grants: &Grants, user: &User, namespace: &str, attributes: &Attributes<'_>) -> Decision {
    let mut decision = Decision::NO_OPINION;
    let mut problems = Vec::new();
    grants.visit(user, namespace, |grant, resolved| match resolved {
        Resolved::Rules(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
            decision = Decision::Allowed(Reason::Granted(grant.clone()));
            false
        }
        Resolved::Rules(_) => true,
        Resolved::Missing(problem) => {
            problems.push(problem);
            true
        }
    });
    match (&decision, problems.is_empty()) {
        (Decision::NoOpinion(_), false) => Decision::NoOpinion(format!("RBAC: {}", listed(problems)).into()),
        _ => decision,
    }
}

/// Several problems in one text, each told once.
pub(crate) fn listed(problems: Vec<String>) -> String {
    let mut told: Vec<String> = Vec::with_capacity(problems.len());
    for problem in problems {
        if !told.contains(&problem) {
            told.push(problem);
        }
    }
    match told.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

impl fmt::Debug for Rbac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rbac").finish_non_exhaustive()
    }
}

// === impl Live ===

impl Live {
    /// Compiles everything that is there.
    fn start(caches: &dyn Caches) -> Self {
        let mut live = Self::default();
        for resource in RESOURCES {
            let Some(cache) = caches.cache(&GroupResource::new(GROUP, resource)) else {
                continue;
            };
            let feed = cache.subscribe(None);
            let mut feed = feed.expect("whoever starts with what is there asks for nothing old");
            if let Some(initial) = feed.initial.take() {
                initial
                    .iter()
                    .for_each(|object| live.grants.insert(resource, object));
            }
            live.feeds.push((resource, feed));
        }
        live
    }

    /// Whether there is a feed for each cache there is. A server that is starting may not have them yet.
    fn is_whole(&self, caches: &dyn Caches) -> bool {
        let there = |resource: &&str| caches.cache(&GroupResource::new(GROUP, resource)).is_some();
        self.feeds.len() == RESOURCES.len()
            || self.feeds.len() == RESOURCES.iter().filter(|one| there(one)).count()
    }

    fn is_fresh(&self) -> bool {
        self.feeds.iter().all(|(_, feed)| feed.progress().is_some())
    }

    /// Takes over what has changed; false if too much was missed for that.
    fn catch_up(&mut self) -> bool {
        for (resource, feed) in &mut self.feeds {
            loop {
                match feed.try_next() {
                    Ok(Some(batch)) => batch
                        .changes()
                        .iter()
                        .for_each(|change| self.grants.apply(resource, change)),
                    Ok(None) => break,
                    Err(_) => return false,
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
