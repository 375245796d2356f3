//! The RBAC authorizer: roles and bindings.
//!
//! The objects are compiled into [`Grants`] once and then kept up to date by subscriptions to the caches: without new
//! changes a check looks only at the bindings of the user. Nothing runs in the background; the first check after a change
//! applies it.
//!
//! The rules are those of `plugin/pkg/auth/authorizer/rbac/rbac.go` in Kubernetes.

use std::fmt;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockWriteGuard};
use setpoint_api::{GroupResource, User};
use setpoint_cache::{Caches, Subscription};

mod grants;
mod view;

pub use grants::{Grant, Grants, ResolvedRole};

use super::{AccessTarget, Attributes, Authorize, Decision, PolicyRule, Reason, UserRules};
use crate::maybe_future::MaybeFuture;

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";
const ROLES: &str = "roles";
const CLUSTER_ROLES: &str = "clusterroles";
const ROLE_BINDINGS: &str = "rolebindings";
const CLUSTER_ROLE_BINDINGS: &str = "clusterrolebindings";

const RESOURCES: [&str; 4] = [ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS];

/// Allows what the roles bound to the user allow.
pub struct Rbac {
    caches: Arc<dyn Caches>,
    /// `None` until the first check.
    compiled: RwLock<Option<CompiledGrants>>,
}

/// The compiled grants and the subscriptions they are compiled from.
#[derive(Debug, Default)]
struct CompiledGrants {
    /// All changes delivered by these are applied to `grants`.
    subscriptions: Vec<(&'static str, Subscription)>,
    grants: Grants,
}

impl Rbac {
    pub fn new(caches: Arc<dyn Caches>) -> Self {
        Self {
            caches,
            compiled: RwLock::new(None),
        }
    }

    /// All rules of the user, cluster-wide and in the namespace.
    pub fn rules_of(&self, user: &User, namespace: &str) -> UserRules {
        self.with_grants(|grants| {
            let mut found = UserRules::default();
            grants.visit(user, namespace, |_, resolved| {
                match resolved {
                    ResolvedRole::Rules(rules) => found.rules.extend_from_slice(rules),
                    ResolvedRole::Missing(problem) => found.problems.push(problem),
                }
                true
            });
            found
        })
    }

    /// The rules of a role that a binding in this namespace refers to.
    pub fn rules_of_role(&self, kind: &str, name: &str, namespace: &str) -> Option<Vec<PolicyRule>> {
        self.with_grants(|grants| match grants.resolve(kind, name, namespace) {
            ResolvedRole::Rules(rules) => Some(rules.to_vec()),
            ResolvedRole::Missing(_) => None,
        })
    }

    /// Calls `look` with the grants, brought up to date.
    fn with_grants<T>(&self, look: impl FnOnce(&Grants) -> T) -> T {
        {
            let compiled = self.compiled.read();
            let current =
                |compiled: &&CompiledGrants| compiled.has_all_caches(&*self.caches) && compiled.is_current();
            if let Some(compiled) = compiled.as_ref().filter(current) {
                return look(&compiled.grants);
            }
        }
        let mut compiled = self.compiled.write();
        let caught_up = compiled
            .as_mut()
            .is_some_and(|compiled| compiled.has_all_caches(&*self.caches) && compiled.catch_up());
        if !caught_up {
            *compiled = Some(CompiledGrants::compile(&*self.caches));
        }
        let compiled = RwLockWriteGuard::downgrade(compiled);
        look(&compiled.as_ref().expect("the grants were just compiled").grants)
    }
}

impl Authorize for Rbac {
    fn authorize<'a>(&'a self, user: &'a User, attributes: &'a Attributes<'a>) -> MaybeFuture<'a, Decision> {
        let namespace = match attributes.target {
            AccessTarget::Resource { namespace, .. } => namespace,
            AccessTarget::Path(_) => "",
        };
        self.with_grants(|grants| decide(grants, user, namespace, attributes))
            .into()
    }

    fn rules_for(&self, user: &User, namespace: &str) -> UserRules {
        self.rules_of(user, namespace)
    }
}

fn decide(grants: &Grants, user: &User, namespace: &str, attributes: &Attributes<'_>) -> Decision {
    let mut decision = Decision::NO_OPINION;
    let mut problems = Vec::new();
    grants.visit(user, namespace, |grant, resolved| match resolved {
        ResolvedRole::Rules(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
            decision = Decision::Allowed(Reason::Granted(grant.clone()));
            false
        }
        ResolvedRole::Rules(_) => true,
        ResolvedRole::Missing(problem) => {
            problems.push(problem);
            true
        }
    });
    match (&decision, problems.is_empty()) {
        (Decision::NoOpinion(_), false) => {
            Decision::NoOpinion(format!("RBAC: {}", join_unique(problems)).into())
        }
        _ => decision,
    }
}

/// Joins messages to one, without duplicates.
pub(crate) fn join_unique(problems: Vec<String>) -> String {
    let mut unique: Vec<String> = Vec::with_capacity(problems.len());
    for problem in problems {
        if !unique.contains(&problem) {
            unique.push(problem);
        }
    }
    match unique.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

impl fmt::Debug for Rbac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rbac").finish_non_exhaustive()
    }
}

// === impl CompiledGrants ===

impl CompiledGrants {
    /// Compiles all roles and bindings in the caches.
    fn compile(caches: &dyn Caches) -> Self {
        let mut compiled = Self::default();
        for resource in RESOURCES {
            let Some(cache) = caches.cache(&GroupResource::new(GROUP, resource)) else {
                continue;
            };
            let subscription = cache.subscribe(None);
            let mut subscription =
                subscription.expect("a subscription without a start version never expires");
            if let Some(initial) = subscription.initial.take() {
                initial
                    .iter()
                    .for_each(|object| compiled.grants.insert(resource, object));
            }
            compiled.subscriptions.push((resource, subscription));
        }
        compiled
    }

    /// Whether there is a subscription to each existing cache. A server that is starting may not have them all yet.
    fn has_all_caches(&self, caches: &dyn Caches) -> bool {
        let there = |resource: &&str| caches.cache(&GroupResource::new(GROUP, resource)).is_some();
        self.subscriptions.len() == RESOURCES.len()
            || self.subscriptions.len() == RESOURCES.iter().filter(|one| there(one)).count()
    }

    fn is_current(&self) -> bool {
        self.subscriptions
            .iter()
            .all(|(_, subscription)| subscription.progress().is_some())
    }

    /// Applies the pending changes; false if a subscription has expired.
    fn catch_up(&mut self) -> bool {
        for (resource, subscription) in &mut self.subscriptions {
            loop {
                match subscription.try_next() {
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
