//! Bootstrap objects: those that every cluster has, and those that describe this server.
//!
//! They are written in a compact text format, since as full objects they are a hundred kilobytes of repetition.
//! [`objects`] returns what every cluster has, and what follows from this server's configuration.
//! [`reconcile`] updates objects that already exist, and removes nothing that users have added.

mod flow_control;
pub mod reconcile;
mod roles;
pub mod server_objects;

use std::time::Duration;

use setpoint_api::Gvr;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::{BootstrapObject, Kinds, Recheck, meta};

pub use server_objects::{PROXY_NAME, RequestHeaderInfo, ServerInfo};

/// The namespaces every cluster has.
pub const NAMESPACES: &[&str] = &["kube-system", "kube-public", "kube-node-lease", "default"];

/// The system priority classes, with their descriptions.
const PRIORITY_CLASSES: &[(&str, i64, &str)] = &[
    (
        "system-node-critical",
        2_000_001_000,
        "For pods that the cluster cannot do without and that must stay on their node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "For pods that the cluster cannot do without, on whatever node.",
    ),
];

/// `groupPriorityMinimum` of each group, and `versionPriority` of versions that do not have the default one.
const GROUP_PRIORITIES: &[(&str, i64)] = &[
    ("", 18_000),
    ("admissionregistration.k8s.io", 16_700),
    ("apiextensions.k8s.io", 16_700),
    ("apps", 17_800),
    ("authentication.k8s.io", 17_700),
    ("authorization.k8s.io", 17_600),
    ("autoscaling", 17_500),
    ("batch", 17_400),
    ("certificates.k8s.io", 17_300),
    ("coordination.k8s.io", 16_500),
    ("discovery.k8s.io", 16_200),
    ("events.k8s.io", 17_750),
    ("flowcontrol.apiserver.k8s.io", 16_100),
    ("networking.k8s.io", 17_200),
    ("node.k8s.io", 16_300),
    ("policy", 17_100),
    ("rbac.authorization.k8s.io", 17_000),
    ("resource.k8s.io", 16_200),
    ("scheduling.k8s.io", 16_600),
    ("storage.k8s.io", 16_800),
    ("storagemigration.k8s.io", 15_800),
];
const VERSION_PRIORITIES: &[(&str, &str, i64)] = &[
    ("", "v1", 1),
    ("autoscaling", "v2", 30),
    ("flowcontrol.apiserver.k8s.io", "v1", 21),
    ("resource.k8s.io", "v1", 21),
];
const DEFAULT_VERSION_PRIORITY: i64 = 15;

/// The group of the metrics API, which only a server that reads the usage of its nodes serves. It has no APIService: the one
/// that a user creates for metrics-server has precedence over the server's own.
const METRICS_GROUP: &str = "metrics.k8s.io";

/// The field managers of bootstrap objects, as Kubernetes has them.
const API_SERVER: &str = "kube-apiserver";
const CONTROLLER_MANAGER: &str = "kube-controller-manager";
const FLOW_CONTROL_PRODUCER: &str = "api-priority-and-fairness-config-producer-v1";

/// How often system namespaces and the objects of priority and fairness are checked.
const MINUTE: Duration = Duration::from_secs(60);

/// The bootstrap objects of a server of these kinds, and those that describe the server.
pub fn objects(kinds: &Kinds, server: Option<&ServerInfo>) -> Vec<BootstrapObject> {
    let mut objects = rechecked_objects(server);
    if server.is_none_or(|server| server.has_default_accounts) {
        objects.extend(default_accounts());
    }
    objects.extend(PRIORITY_CLASSES.iter().map(priority_class).map(bootstrap_object));
    objects.extend(roles::all().into_iter().map(bootstrap_object));
    objects.extend(api_services(kinds).into_iter().map(bootstrap_object));
    if kinds.iter().any(|kind| kind.info().gvr.group == METRICS_GROUP) {
        objects.extend(roles::metrics_reader().into_iter().map(bootstrap_object));
    }
    objects
}

/// Those of [`objects`] that are checked again while the server runs. The others are written at the first start of a
/// cluster only, so a fork of a cluster does not need them.
pub fn rechecked_objects(server: Option<&ServerInfo>) -> Vec<BootstrapObject> {
    let mut objects = Vec::new();
    objects.extend(NAMESPACES.iter().map(|name| BootstrapObject {
        recheck: Recheck::CreateEvery(MINUTE),
        ..bootstrap_object(namespace(name))
    }));
    objects.extend(flow_control::all().into_iter().map(|object| BootstrapObject {
        field_manager: FLOW_CONTROL_PRODUCER,
        recheck: Recheck::ReconcileEvery(MINUTE),
        ..bootstrap_object(object)
    }));
    objects.extend(server.map(server_objects::objects).unwrap_or_default());
    objects
}

/// The ServiceAccounts of the bootstrap namespaces. The service account controller creates them again.
fn default_accounts() -> impl Iterator<Item = BootstrapObject> {
    NAMESPACES.iter().map(|namespace| BootstrapObject {
        field_manager: CONTROLLER_MANAGER,
        ..bootstrap_object(default_account(namespace))
    })
}

/// An object that the API server writes at its start.
fn bootstrap_object((resource, object): (Gvr, Tree)) -> BootstrapObject {
    BootstrapObject {
        resource,
        object,
        field_manager: API_SERVER,
        is_validated: true,
        reconcile: reconcile::reconcile,
        recheck: Recheck::Never,
    }
}

/// Whether a spec differs from that of the bootstrap object of this kind and name.
pub(crate) fn spec_differs(kind: &str, name: &str, spec: &Tree) -> bool {
    let bootstrap = flow_control::all();
    let mut bootstrap = bootstrap.iter().map(|(_, tree)| tree);
    let bootstrap =
        bootstrap.find(|tree| tree.str_at(&[fields::KIND]) == Some(kind) && meta::name(tree) == name);
    bootstrap
        .and_then(|tree| tree.get(fields::SPEC))
        .is_some_and(|bootstrap| !bootstrap.semantic_eq(spec))
}

/// An object with only `apiVersion`, `kind` and name.
fn object(group: &str, version: &str, kind: &str, name: &str) -> Tree {
    let api_version = match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    let mut tree = Tree::default();
    tree.set(&[fields::API_VERSION], api_version);
    tree.set(&[fields::KIND], kind);
    tree.set(&[fields::METADATA, fields::NAME], name);
    tree
}

fn namespace(name: &str) -> (Gvr, Tree) {
    let tree = object("", "v1", "Namespace", name);
    (Gvr::new("", "v1", "namespaces"), tree)
}

/// The ServiceAccount `default`, which pods that name no other run as. For later namespaces the controller creates
/// it; for the bootstrap ones it is created at startup, so that a pod can be the first object of a new cluster.
fn default_account(namespace: &str) -> (Gvr, Tree) {
    let mut tree = object("", "v1", "ServiceAccount", "default");
    tree.set(&[fields::METADATA, fields::NAMESPACE], namespace);
    (Gvr::new("", "v1", "serviceaccounts"), tree)
}

fn priority_class((name, value, description): &(&str, i64, &str)) -> (Gvr, Tree) {
    let mut tree = object("scheduling.k8s.io", "v1", "PriorityClass", name);
    tree.set(&[fields::VALUE], *value);
    tree.set(&[fields::DESCRIPTION], *description);
    (Gvr::new("scheduling.k8s.io", "v1", "priorityclasses"), tree)
}

/// One APIService for each served group and version.
fn api_services(kinds: &Kinds) -> Vec<(Gvr, Tree)> {
    let mut versions: Vec<(&str, &str)> = kinds
        .iter()
        .map(|kind| (kind.info().gvr.group.as_str(), kind.info().gvr.version.as_str()))
        .collect();
    versions.sort_unstable();
    versions.dedup();
    versions
        .into_iter()
        .filter_map(|(group, version)| api_service(group, version))
        .collect()
}

fn api_service(group: &str, version: &str) -> Option<(Gvr, Tree)> {
    let (_, group_priority) = GROUP_PRIORITIES.iter().find(|(known, _)| *known == group)?;
    let priority = VERSION_PRIORITIES
        .iter()
        .find(|(known, of, _)| (*known, *of) == (group, version))
        .map_or(DEFAULT_VERSION_PRIORITY, |(_, _, priority)| *priority);
    let name = format!("{version}.{group}");
    let mut tree = object("apiregistration.k8s.io", "v1", "APIService", &name);
    let label = "kube-aggregator.kubernetes.io/automanaged";
    tree.set(&[fields::METADATA, fields::LABELS, label], "onstart");
    if !group.is_empty() {
        tree.set(&[fields::SPEC, fields::GROUP], group);
    }
    tree.set(&[fields::SPEC, fields::VERSION], version);
    tree.set(&[fields::SPEC, fields::GROUP_PRIORITY_MINIMUM], *group_priority);
    tree.set(&[fields::SPEC, fields::VERSION_PRIORITY], priority);
    Some((Gvr::new("apiregistration.k8s.io", "v1", "apiservices"), tree))
}

/// The items of a comma-separated list.
fn comma_list(text: &str) -> Vec<Tree> {
    text.split(',').map(Tree::from).collect()
}

/// The API groups of a comma-separated list, in which the core group is `core`.
fn groups(text: &str) -> Vec<Tree> {
    let unnamed = |group: &str| Tree::from(if group == "core" { "" } else { group });
    text.split(',').map(unnamed).collect()
}

#[cfg(test)]
mod tests;
