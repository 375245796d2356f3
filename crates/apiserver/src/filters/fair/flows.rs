//! Which flow a request belongs to: the flow schemas and levels of priority that Kubernetes starts with.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use setpoint_api::User;
use setpoint_auth::authorize::{Attributes, Object};

/// A level of priority, by its place in [`LEVELS`].
pub(crate) type Level = usize;

/// What is known of a level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Priority {
    pub name: &'static str,
    /// Its part of the seats, in relation to the others'.
    pub shares: usize,
    /// Whether requests wait for a seat; otherwise they are turned away.
    pub queues: bool,
}

#[rustfmt::skip]
pub(crate) const LEVELS: [Priority; 7] = [
    Priority { name: "catch-all", shares: 5, queues: false },
    Priority { name: "global-default", shares: 20, queues: true },
    Priority { name: "leader-election", shares: 10, queues: true },
    Priority { name: "node-high", shares: 40, queues: true },
    Priority { name: "system", shares: 30, queues: true },
    Priority { name: "workload-high", shares: 40, queues: true },
    Priority { name: "workload-low", shares: 100, queues: true },
];

/// A flow schema: who and what belongs to it, and how its requests are told apart.
#[derive(Debug)]
pub(crate) struct Schema {
    pub name: &'static str,
    /// Absent where requests are never counted.
    pub level: Option<Level>,
    by: By,
    takes: fn(&User, &Attributes<'_>) -> bool,
}

/// What makes two requests of a schema one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    User,
    Namespace,
}

/// The flow of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flow {
    /// The place of its schema in [`FLOWS`].
    pub schema: usize,
    /// The same for all requests of the flow.
    pub key: u64,
}

/// The schemas in the order in which they are tried.
#[rustfmt::skip]
pub(crate) const FLOWS: [Schema; 11] = [
    Schema { name: "exempt", level: None, by: By::User, takes: |user, _| user.is_in(User::MASTERS) },
    Schema { name: "probes", level: None, by: By::User, takes: |_, asked| is_probe(asked) },
    Schema { name: "system-leader-election", level: Some(2), by: By::User, takes: |user, asked| (is_controller(user) || is_system_account(user)) && is_lease(asked, &["get", "create", "update"]) },
    Schema { name: "system-node-high", level: Some(3), by: By::User, takes: |user, asked| user.is_in(NODES) && is_heartbeat(asked) },
    Schema { name: "system-nodes", level: Some(4), by: By::User, takes: |user, _| user.is_in(NODES) },
    Schema { name: "kube-controller-manager", level: Some(5), by: By::Namespace, takes: |user, _| user.name == CONTROLLERS },
    Schema { name: "kube-scheduler", level: Some(5), by: By::Namespace, takes: |user, _| user.name == SCHEDULER },
    Schema { name: "kube-system-service-accounts", level: Some(5), by: By::Namespace, takes: |user, _| is_system_account(user) },
    Schema { name: "service-accounts", level: Some(6), by: By::User, takes: |user, _| user.is_in("system:serviceaccounts") },
    Schema { name: "global-default", level: Some(1), by: By::User, takes: |user, _| user.is_in(User::AUTHENTICATED) || user.is_in(User::UNAUTHENTICATED) },
    Schema { name: "catch-all", level: Some(0), by: By::User, takes: |_, _| true },
];

const NODES: &str = "system:nodes";
const CONTROLLERS: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";

/// The flow that a request belongs to.
pub(crate) fn find(user: &User, asked: &Attributes<'_>) -> Flow {
    let taken = FLOWS.iter().position(|schema| (schema.takes)(user, asked));
    let schema = taken.unwrap_or(FLOWS.len() - 1);
    let told_apart = match (FLOWS[schema].by, asked.object) {
        (By::Namespace, Object::Resource { namespace, .. }) => namespace,
        (By::Namespace, Object::Path(_)) => "",
        (By::User, _) => user.name.as_str(),
    };
    Flow {
        schema,
        key: match FLOWS[schema].level {
            None => 0,
            Some(_) => key(schema, told_apart),
        },
    }
}

/// Flows are told apart by a number that callers cannot foresee.
fn key(schema: usize, told_apart: &str) -> u64 {
    static STATE: OnceLock<RandomState> = OnceLock::new();
    STATE.get_or_init(RandomState::new).hash_one((schema, told_apart))
}

impl Schema {
    pub(crate) fn level_name(&self) -> &'static str {
        self.level.map_or("exempt", |level| LEVELS[level].name)
    }
}

fn is_probe(asked: &Attributes<'_>) -> bool {
    asked.verb == "get" && matches!(asked.object, Object::Path("/healthz" | "/livez" | "/readyz"))
}

fn is_controller(user: &User) -> bool {
    user.name == CONTROLLERS || user.name == SCHEDULER
}

fn is_system_account(user: &User) -> bool {
    user.name.starts_with("system:serviceaccount:kube-system:")
}

fn is_lease(asked: &Attributes<'_>, verbs: &[&str]) -> bool {
    let is_lease = matches!(
        asked.object,
        Object::Resource {
            group: "coordination.k8s.io",
            resource: "leases",
            subresource: "",
            ..
        }
    );
    is_lease && (verbs.is_empty() || verbs.contains(&asked.verb))
}

/// What a node says about itself.
fn is_heartbeat(asked: &Attributes<'_>) -> bool {
    let is_node = matches!(
        asked.object,
        Object::Resource {
            group: "",
            resource: "nodes",
            subresource: "" | "status",
            ..
        }
    );
    is_node || is_lease(asked, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(group: &'static str, resource: &'static str) -> Object<'static> {
        Object::Resource {
            group,
            resource,
            subresource: "",
            namespace: "a",
            name: "x",
        }
    }

    #[track_caller]
    fn check(name: &str, group: &str, object: Object<'_>, expected: (&str, &str)) {
        let attributes = Attributes::new("get", object);
        let flow = find(&User::new(name, &[group]), &attributes);
        let schema = &FLOWS[flow.schema];
        assert_eq!((schema.name, schema.level_name()), expected, "{name} {group}");
    }

    #[test]
    fn a_request_belongs_to_the_first_schema_that_takes_it() {
        let pods = on("", "pods");
        let (accounts, account) = ("system:serviceaccounts", "system:serviceaccount:a:x");
        check("admin", User::MASTERS, pods, ("exempt", "exempt"));
        check(
            "x",
            User::UNAUTHENTICATED,
            Object::Path("/livez"),
            ("probes", "exempt"),
        );
        check(SCHEDULER, "", pods, ("kube-scheduler", "workload-high"));
        check("n", NODES, pods, ("system-nodes", "system"));
        check(account, accounts, pods, ("service-accounts", "workload-low"));
        check(
            "alice",
            User::AUTHENTICATED,
            pods,
            ("global-default", "global-default"),
        );
        check("nobody", "", pods, ("catch-all", "catch-all"));
    }

    #[test]
    fn what_keeps_the_cluster_together_comes_first() {
        let (nodes, leases) = (on("", "nodes"), on("coordination.k8s.io", "leases"));
        check(
            SCHEDULER,
            "",
            leases,
            ("system-leader-election", "leader-election"),
        );
        check("n", NODES, leases, ("system-node-high", "node-high"));
        check("n", NODES, nodes, ("system-node-high", "node-high"));
        let (account, schema) = (
            "system:serviceaccount:kube-system:x",
            "kube-system-service-accounts",
        );
        check(
            account,
            "system:serviceaccounts",
            nodes,
            (schema, "workload-high"),
        );
    }

    #[test]
    fn users_are_different_flows() {
        let attributes = Attributes::new("get", on("", "pods"));
        let flow = |name| find(&User::new(name, &["system:authenticated"]), &attributes);
        assert_eq!(flow("alice"), flow("alice"));
        assert_ne!(flow("alice"), flow("bob"));
    }
}
