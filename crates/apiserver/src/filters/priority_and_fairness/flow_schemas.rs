//! Classification of requests into flows: the FlowSchemas and PriorityLevelConfigurations that Kubernetes creates at
//! start.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use setpoint_api::{ApiVerb, HttpVerb, User};
use setpoint_auth::authorize::{AccessTarget, Attributes};

/// Index of a priority level in [`PRIORITY_LEVELS`].
pub(crate) type LevelIndex = usize;

/// A priority level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PriorityLevel {
    pub name: &'static str,
    /// Its nominal concurrency shares.
    pub shares: usize,
    /// Whether requests are queued for a seat; otherwise they are rejected.
    pub queues: bool,
}

#[rustfmt::skip]
pub(crate) const PRIORITY_LEVELS: [PriorityLevel; 7] = [
    PriorityLevel { name: "catch-all", shares: 5, queues: false },
    PriorityLevel { name: "global-default", shares: 20, queues: true },
    PriorityLevel { name: "leader-election", shares: 10, queues: true },
    PriorityLevel { name: "node-high", shares: 40, queues: true },
    PriorityLevel { name: "system", shares: 30, queues: true },
    PriorityLevel { name: "workload-high", shares: 40, queues: true },
    PriorityLevel { name: "workload-low", shares: 100, queues: true },
];

/// A FlowSchema: which requests match it, and what distinguishes their flows.
#[derive(Debug)]
pub(crate) struct FlowSchema {
    pub name: &'static str,
    /// `None` for the exempt level, whose requests take no seat.
    pub level: Option<LevelIndex>,
    distinguisher: Distinguisher,
    matches: fn(&User, &Attributes<'_>) -> bool,
}

/// What distinguishes the flows of a schema (upstream: `FlowDistinguisherMethod`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Distinguisher {
    User,
    Namespace,
}

/// The flow of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flow {
    /// Index of its schema in [`FLOW_SCHEMAS`].
    pub schema: usize,
    /// The same for all requests of the flow.
    pub key: u64,
}

/// The schemas in matching precedence.
#[rustfmt::skip]
pub(crate) const FLOW_SCHEMAS: [FlowSchema; 11] = [
    FlowSchema { name: "exempt", level: None, distinguisher: Distinguisher::User, matches: |user, _| user.is_in(User::MASTERS) },
    FlowSchema { name: "probes", level: None, distinguisher: Distinguisher::User, matches: |_, attributes| is_probe(attributes) },
    FlowSchema { name: "system-leader-election", level: Some(2), distinguisher: Distinguisher::User, matches: |user, attributes| (is_controller(user) || is_system_account(user)) && is_lease(attributes, &[ApiVerb::Get, ApiVerb::Create, ApiVerb::Update]) },
    FlowSchema { name: "system-node-high", level: Some(3), distinguisher: Distinguisher::User, matches: |user, attributes| user.is_in(NODES) && is_heartbeat(attributes) },
    FlowSchema { name: "system-nodes", level: Some(4), distinguisher: Distinguisher::User, matches: |user, _| user.is_in(NODES) },
    FlowSchema { name: "kube-controller-manager", level: Some(5), distinguisher: Distinguisher::Namespace, matches: |user, _| user.name == CONTROLLERS },
    FlowSchema { name: "kube-scheduler", level: Some(5), distinguisher: Distinguisher::Namespace, matches: |user, _| user.name == SCHEDULER },
    FlowSchema { name: "kube-system-service-accounts", level: Some(5), distinguisher: Distinguisher::Namespace, matches: |user, _| is_system_account(user) },
    FlowSchema { name: "service-accounts", level: Some(6), distinguisher: Distinguisher::User, matches: |user, _| user.is_in("system:serviceaccounts") },
    FlowSchema { name: "global-default", level: Some(1), distinguisher: Distinguisher::User, matches: |user, _| user.is_in(User::AUTHENTICATED) || user.is_in(User::UNAUTHENTICATED) },
    FlowSchema { name: "catch-all", level: Some(0), distinguisher: Distinguisher::User, matches: |_, _| true },
];

const NODES: &str = "system:nodes";
const CONTROLLERS: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";

/// Classifies a request.
pub(crate) fn classify(user: &User, attributes: &Attributes<'_>) -> Flow {
    let matched = FLOW_SCHEMAS
        .iter()
        .position(|schema| (schema.matches)(user, attributes));
    let schema = matched.unwrap_or(FLOW_SCHEMAS.len() - 1);
    let distinguisher = match (FLOW_SCHEMAS[schema].distinguisher, attributes.target) {
        (Distinguisher::Namespace, AccessTarget::Resource { namespace, .. }) => namespace,
        (Distinguisher::Namespace, AccessTarget::Path(_)) => "",
        (Distinguisher::User, _) => user.name.as_str(),
    };
    Flow {
        schema,
        key: match FLOW_SCHEMAS[schema].level {
            None => 0,
            Some(_) => key(schema, distinguisher),
        },
    }
}

/// The key of a flow: a hash that clients cannot predict.
fn key(schema: usize, distinguisher: &str) -> u64 {
    static STATE: OnceLock<RandomState> = OnceLock::new();
    STATE
        .get_or_init(RandomState::new)
        .hash_one((schema, distinguisher))
}

impl FlowSchema {
    pub(crate) fn level_name(&self) -> &'static str {
        self.level.map_or("exempt", |level| PRIORITY_LEVELS[level].name)
    }
}

fn is_probe(attributes: &Attributes<'_>) -> bool {
    attributes.verb == HttpVerb::Get
        && matches!(
            attributes.target,
            AccessTarget::Path("/healthz" | "/livez" | "/readyz")
        )
}

fn is_controller(user: &User) -> bool {
    user.name == CONTROLLERS || user.name == SCHEDULER
}

fn is_system_account(user: &User) -> bool {
    user.name.starts_with("system:serviceaccount:kube-system:")
}

fn is_lease(attributes: &Attributes<'_>, verbs: &[ApiVerb]) -> bool {
    let is_lease = matches!(
        attributes.target,
        AccessTarget::Resource {
            group: "coordination.k8s.io",
            resource: "leases",
            subresource: "",
            ..
        }
    );
    is_lease && (verbs.is_empty() || verbs.iter().any(|verb| attributes.verb == *verb))
}

/// Whether the request is a node's heartbeat: its Node status or its Lease.
fn is_heartbeat(attributes: &Attributes<'_>) -> bool {
    let is_node = matches!(
        attributes.target,
        AccessTarget::Resource {
            group: "",
            resource: "nodes",
            subresource: "" | "status",
            ..
        }
    );
    is_node || is_lease(attributes, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(group: &'static str, resource: &'static str) -> AccessTarget<'static> {
        AccessTarget::Resource {
            group,
            resource,
            subresource: "",
            namespace: "a",
            name: "x",
        }
    }

    #[track_caller]
    fn check(name: &str, group: &str, object: AccessTarget<'_>, expected: (&str, &str)) {
        let attributes = Attributes::new("get", object);
        let flow = classify(&User::new(name, &[group]), &attributes);
        let schema = &FLOW_SCHEMAS[flow.schema];
        assert_eq!((schema.name, schema.level_name()), expected, "{name} {group}");
    }

    #[test]
    fn a_request_belongs_to_the_first_schema_that_matches() {
        let pods = on("", "pods");
        let (accounts, account) = ("system:serviceaccounts", "system:serviceaccount:a:x");
        check("admin", User::MASTERS, pods, ("exempt", "exempt"));
        check(
            "x",
            User::UNAUTHENTICATED,
            AccessTarget::Path("/livez"),
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
    fn leases_and_heartbeats_have_levels_of_their_own() {
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
        let flow = |name| classify(&User::new(name, &["system:authenticated"]), &attributes);
        assert_eq!(flow("alice"), flow("alice"));
        assert_ne!(flow("alice"), flow("bob"));
    }
}
