//! Index of RBAC bindings by subject, and of roles by name.
//!
//! One example: a binding `readers` in `default` of the role `reader` to the user `alice` and the group `devs` is found
//! in namespace `default` under the user `alice` and under the group `devs`. Bob, who is in `devs` and `ops`, is granted
//! what is found under the user `bob`, the group `devs` and the group `ops`, in `default` and cluster-wide.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use setpoint_api::{Change, Stored, User};
use smallvec::SmallVec;

use super::view::{BindingView, RoleRef, RoleView, Subject};
use super::{CLUSTER_ROLES, PolicyRule, ROLES};
use crate::service_account;

/// One subject of one binding.
#[derive(Debug)]
pub struct Grant {
    /// Empty for a ClusterRoleBinding.
    namespace: String,
    binding: String,
    role: RoleRef,
    subject: Subject,
    /// The index of the subject in the binding.
    index: usize,
}

/// All bindings and roles, indexed.
#[derive(Debug, Default)]
pub struct Grants {
    cluster: Scope,
    namespaces: HashMap<String, Scope>,
}

/// The grants and roles of one namespace, or of the cluster.
#[derive(Debug, Default)]
struct Scope {
    users: HashMap<String, Vec<Arc<Grant>>>,
    groups: HashMap<String, Vec<Arc<Grant>>>,
    roles: HashMap<String, Arc<[PolicyRule]>>,
}

/// The role that a binding refers to.
#[derive(Debug)]
pub enum ResolvedRole<'a> {
    Rules(&'a [PolicyRule]),
    /// The role does not exist; the error message.
    Missing(String),
}

/// The grants of one user in one scope.
type UserGrants<'a> = SmallVec<[&'a Arc<Grant>; 16]>;

// === impl Grants ===

impl Grants {
    /// Calls `visitor` with each binding of the user and its rules, ClusterRoleBindings first, until it returns `false`.
    pub fn visit(
        &self,
        user: &User,
        namespace: &str,
        mut visitor: impl FnMut(&Arc<Grant>, ResolvedRole<'_>) -> bool,
    ) {
        for grant in self.cluster.find(user) {
            if !visitor(grant, self.resolve(&grant.role.kind, &grant.role.name, "")) {
                return;
            }
        }
        let Some(scope) = self.namespaces.get(namespace) else {
            return;
        };
        for grant in scope.find(user) {
            if !visitor(grant, self.resolve(&grant.role.kind, &grant.role.name, namespace)) {
                return;
            }
        }
    }

    /// The rules of a role that a binding in this namespace refers to.
    pub fn resolve(&self, kind: &str, name: &str, namespace: &str) -> ResolvedRole<'_> {
        let (scope, resource) = match kind {
            "ClusterRole" => (Some(&self.cluster), "clusterrole"),
            "Role" => (self.namespaces.get(namespace), "role"),
            kind => return ResolvedRole::Missing(format!("unsupported role reference kind: {kind:?}")),
        };
        match scope.and_then(|scope| scope.roles.get(name)) {
            Some(rules) => ResolvedRole::Rules(rules),
            None => ResolvedRole::Missing(format!("{resource}.{} {name:?} not found", super::GROUP)),
        }
    }

    pub(super) fn apply(&mut self, resource: &str, change: &Change) {
        match change {
            Change::Added(new) => self.insert(resource, new),
            Change::Modified { old, new } => {
                self.remove(resource, old);
                self.insert(resource, new);
            }
            Change::Deleted { old, .. } => self.remove(resource, old),
        }
    }

    /// Adds an object. One that cannot be decoded grants nothing.
    pub(super) fn insert(&mut self, resource: &str, object: &Stored) {
        let (namespace, name) = (object.key().namespace(), object.key().name());
        match resource {
            ROLES | CLUSTER_ROLES => {
                let Ok(role) = object.decode::<RoleView>() else {
                    return;
                };
                let rules = role.rules.into();
                self.scope(namespace).roles.insert(name.to_owned(), rules);
            }
            _ => {
                let Ok(binding) = object.decode::<BindingView>() else {
                    return;
                };
                for grant in grants_of(object, binding) {
                    self.scope(namespace).bind(grant);
                }
            }
        }
    }

    fn remove(&mut self, resource: &str, object: &Stored) {
        let (namespace, name) = (object.key().namespace(), object.key().name());
        let scope = self.scope(namespace);
        match resource {
            ROLES | CLUSTER_ROLES => {
                scope.roles.remove(name);
            }
            _ => scope.unbind(name),
        }
        if !namespace.is_empty() && self.scope(namespace).is_empty() {
            self.namespaces.remove(namespace);
        }
    }

    fn scope(&mut self, namespace: &str) -> &mut Scope {
        match namespace {
            "" => &mut self.cluster,
            namespace => {
                if !self.namespaces.contains_key(namespace) {
                    self.namespaces.insert(namespace.to_owned(), Scope::default());
                }
                self.namespaces
                    .get_mut(namespace)
                    .expect("the entry was just inserted")
            }
        }
    }
}

fn grants_of(object: &Stored, binding: BindingView) -> impl Iterator<Item = Grant> {
    let (namespace, name) = (
        object.key().namespace().to_owned(),
        object.key().name().to_owned(),
    );
    let role = binding.role_ref;
    let subjects = binding.subjects.into_iter().enumerate();
    subjects.map(move |(index, subject)| Grant {
        namespace: namespace.clone(),
        binding: name.clone(),
        role: role.clone(),
        subject,
        index,
    })
}

// === impl Scope ===

impl Scope {
    /// The grants of a user, sorted by binding; of several matching subjects in one binding the first is used.
    fn find(&self, user: &User) -> UserGrants<'_> {
        let mut found = UserGrants::new();
        found.extend(self.users.get(&user.name).into_iter().flatten());
        for group in &user.groups {
            found.extend(self.groups.get(group).into_iter().flatten());
        }
        found.sort_unstable_by(|left, right| (&left.binding, left.index).cmp(&(&right.binding, right.index)));
        found.dedup_by(|later, earlier| later.binding == earlier.binding);
        found
    }

    fn bind(&mut self, grant: Grant) {
        let (map, name) = match grant.subject.kind.as_str() {
            "User" => (&mut self.users, grant.subject.name.clone()),
            "Group" => (&mut self.groups, grant.subject.name.clone()),
            "ServiceAccount" => match grant.subject_namespace() {
                "" => return,
                namespace => (
                    &mut self.users,
                    service_account::user_name(namespace, &grant.subject.name),
                ),
            },
            _ => return,
        };
        map.entry(name).or_default().push(Arc::new(grant));
    }

    fn unbind(&mut self, binding: &str) {
        for map in [&mut self.users, &mut self.groups] {
            map.retain(|_, grants| {
                grants.retain(|grant| grant.binding != binding);
                !grants.is_empty()
            });
        }
    }

    fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty() && self.roles.is_empty()
    }
}

// === impl Grant ===

impl Grant {
    /// The namespace of a service account: the subject's, or by default the binding's.
    fn subject_namespace(&self) -> &str {
        match self.subject.namespace.as_str() {
            "" => &self.namespace,
            namespace => namespace,
        }
    }
}

/// The text after `allowed by`.
impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "ClusterRoleBinding {:?}", self.binding)?,
            namespace => write!(f, "RoleBinding \"{}/{namespace}\"", self.binding)?,
        }
        write!(
            f,
            " of {} {:?} to {}",
            self.role.kind, self.role.name, self.subject.kind
        )?;
        match self.subject.kind.as_str() {
            "ServiceAccount" => write!(f, " \"{}/{}\"", self.subject.name, self.subject_namespace()),
            _ => write!(f, " {:?}", self.subject.name),
        }
    }
}
