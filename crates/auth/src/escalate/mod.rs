//! RBAC privilege escalation prevention.
//!
//! A user that writes a role must hold each of its rules, or have the verb `escalate` on roles; a user that binds a role
//! must hold the role's rules, or have the verb `bind` on it. The check runs before the write, on the new object.
//!
//! The rules are those of `pkg/registry/rbac` in Kubernetes.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use setpoint_api::{GroupResource, Gvr, Status, User};
use setpoint_schema::Tree;
use setpoint_schema::tree::from_tree;

use crate::authorize::rbac::{GROUP, Rbac, join_unique};
use crate::authorize::rule::{nullable_list, quoted};
use crate::authorize::{AccessTarget, Attributes, Authorize, PolicyRule};

mod cover;
mod guard;

pub use guard::Guard;

/// The privilege escalation check for writes of roles and bindings.
pub struct EscalationCheck {
    rbac: Arc<Rbac>,
    authorizer: Arc<dyn Authorize>,
}

/// A write of a role or a binding.
struct Write<'a> {
    user: &'a User,
    resource: GroupResource,
    namespace: &'a str,
    name: &'a str,
    new: &'a Tree,
    old: Option<&'a Tree>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RulesView {
    #[serde(deserialize_with = "nullable_list")]
    rules: Vec<PolicyRule>,
}

impl EscalationCheck {
    pub fn new(rbac: Arc<Rbac>, authorizer: Arc<dyn Authorize>) -> Self {
        Self { rbac, authorizer }
    }

    /// Rejects a write that would grant rules which the user does not hold. Other resources pass.
    pub async fn check(
        &self,
        user: &User,
        resource: &Gvr,
        new: &Tree,
        old: Option<&Tree>,
    ) -> Result<(), Status> {
        if !self.applies_to(user, &resource.group) {
            return Ok(());
        }
        self.check_write(&Write {
            user,
            resource: resource.group_resource(),
            namespace: new.str_at(&["metadata", "namespace"]).unwrap_or_default(),
            name: new.str_at(&["metadata", "name"]).unwrap_or_default(),
            new,
            old,
        })
        .await
    }

    fn applies_to(&self, user: &User, group: &str) -> bool {
        group == GROUP && !user.is_in(User::MASTERS)
    }

    async fn check_write(&self, write: &Write<'_>) -> Result<(), Status> {
        match write.resource.resource.as_str() {
            "roles" => self.check_role(write).await,
            "clusterroles" => self.check_cluster_role(write).await,
            "rolebindings" | "clusterrolebindings" => {
                let text = |field: &str| write.new.str_at(&["roleRef", field]).unwrap_or_default();
                let role = Role {
                    group: text("apiGroup"),
                    kind: text("kind"),
                    name: text("name"),
                };
                self.check_binding(write, &role).await
            }
            _ => Ok(()),
        }
    }

    /// Checks that the user holds all of these rules in the namespace; if not, returns the message with the missing ones.
    pub fn rules_covered(&self, user: &User, namespace: &str, rules: &[PolicyRule]) -> Result<(), String> {
        let held = self.rbac.rules_of(user, namespace);
        let missing = cover::missing(&held.rules, rules);
        if missing.is_empty() {
            return Ok(());
        }
        let mut message = format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            user.name,
            quoted(&user.groups),
            missing.join("\n")
        );
        if !held.problems.is_empty() {
            message.push_str(&format!("; resolution errors: [{}]", join_unique(held.problems)));
        }
        Err(message)
    }

    async fn check_role(&self, write: &Write<'_>) -> Result<(), Status> {
        if self.may_escalate(write).await || write.changes_gc_fields_only() {
            return Ok(());
        }
        let view: RulesView = from_tree(write.new).map_err(|error| Status::bad_request(error.to_string()))?;
        self.rules_covered(write.user, write.namespace, &view.rules)
            .map_err(|why| write.forbidden(&why))
    }

    async fn check_cluster_role(&self, write: &Write<'_>) -> Result<(), Status> {
        if self.may_escalate(write).await || write.changes_gc_fields_only() {
            return Ok(());
        }
        self.check_role(write).await?;
        // An aggregation rule may collect any rule, now or later.
        let aggregates = aggregates(write.new) || write.old.is_some_and(aggregates);
        let everything = [
            PolicyRule::for_resources(&["*"], &["*"], &["*"]),
            PolicyRule::for_paths(&["*"], &["*"]),
        ];
        if aggregates && self.rules_covered(write.user, "", &everything).is_err() {
            return Err(write.forbidden("must have cluster-admin privileges to use the aggregationRule"));
        }
        Ok(())
    }

    async fn check_binding(&self, write: &Write<'_>, role: &Role<'_>) -> Result<(), Status> {
        if write.changes_gc_fields_only() || self.may_bind(write, role).await {
            return Ok(());
        }
        if !matches!(role.kind, "Role" | "ClusterRole") {
            return Err(Status {
                status: "Failure".to_owned(),
                message: format!("unsupported role reference kind: {:?}", role.kind),
                code: 500,
                ..Status::default()
            });
        }
        let Some(rules) = self.rbac.rules_of_role(role.kind, role.name, write.namespace) else {
            return Err(Status::not_found(&write.resource, role.name));
        };
        self.rules_covered(write.user, write.namespace, &rules)
            .map_err(|why| write.forbidden(&why))
    }

    async fn may_escalate(&self, write: &Write<'_>) -> bool {
        let object = AccessTarget::Resource {
            group: GROUP,
            resource: &write.resource.resource,
            subresource: "",
            namespace: write.namespace,
            // A create does not name the object in its URL.
            name: if write.old.is_some() { write.name } else { "" },
        };
        self.may(write.user, "escalate", object).await
    }

    async fn may_bind(&self, write: &Write<'_>, role: &Role<'_>) -> bool {
        let resource = match role.kind {
            "ClusterRole" => "clusterroles",
            "Role" => "roles",
            _ => return false,
        };
        let object = AccessTarget::Resource {
            group: role.group,
            resource,
            subresource: "",
            namespace: write.namespace,
            name: role.name,
        };
        self.may(write.user, "bind", object).await
    }

    async fn may(&self, user: &User, verb: &str, object: AccessTarget<'_>) -> bool {
        let attributes = Attributes::new(verb, object);
        let decision = self.authorizer.authorize(user, &attributes).resolve().await;
        decision.is_allowed()
    }
}

/// The role reference of a binding.
struct Role<'a> {
    group: &'a str,
    kind: &'a str,
    name: &'a str,
}

fn aggregates(role: &Tree) -> bool {
    let selectors = role.at(&["aggregationRule", "clusterRoleSelectors"]);
    selectors
        .and_then(Tree::as_list)
        .is_some_and(|list| !list.is_empty())
}

// === impl Write ===

impl Write<'_> {
    fn forbidden(&self, why: &str) -> Status {
        Status::forbidden(&self.resource, self.name, why)
    }

    /// Whether only owner references and finalizers change (upstream: `IsOnlyMutatingGCFields`). The garbage collector must
    /// be able to do that without holding the rules.
    fn changes_gc_fields_only(&self) -> bool {
        let Some(old) = self.old else {
            return false;
        };
        let bare = |tree: &Tree| {
            let mut tree = tree.clone();
            for field in [
                "ownerReferences",
                "finalizers",
                "managedFields",
                "selfLink",
                "resourceVersion",
            ] {
                tree.take(&["metadata", field]);
            }
            tree
        };
        bare(self.new) == bare(old)
    }
}

impl fmt::Debug for EscalationCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EscalationCheck").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
