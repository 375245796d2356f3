//! The objects a server makes by itself: what every cluster has, and what tells where this server is.
//!
//! They are kept as short texts in a form of their own, since in full they are a hundred thousand bytes of the same few
//! words. [`objects`] is what every cluster has; [`own`] follows from how this server is set up. What is there already
//! is brought up to date by [`reconcile`], which takes nothing away that someone has added.

mod flows;
pub mod own;
mod range;
pub mod reconcile;
mod roles;

use setpoint_api::Gvr;
use setpoint_schema::Tree;

use crate::kinds::Kinds;
use crate::meta;

pub use own::{Own, PROXY_NAME};
pub use range::IpRange;

/// The namespaces every cluster has.
pub const NAMESPACES: &[&str] = &["kube-system", "kube-public", "kube-node-lease", "default"];

/// The priority classes every cluster has, with what they are for.
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

/// How groups are ordered among each other, and their versions that are not of the lowest rank.
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

/// The objects every cluster has, each with its resource, for a server of these kinds.
pub fn objects(kinds: &Kinds) -> Vec<(Gvr, Tree)> {
    let mut objects: Vec<(Gvr, Tree)> = NAMESPACES.iter().map(|name| namespace(name)).collect();
    objects.extend(NAMESPACES.iter().map(|namespace| default_account(namespace)));
    objects.extend(PRIORITY_CLASSES.iter().map(priority_class));
    objects.extend(flows::all());
    objects.extend(roles::all());
    objects.extend(api_services(kinds));
    objects
}

/// Whether a spec is another than that of the priority level or flow schema of this name that every server has.
pub(crate) fn spec_differs(kind: &str, name: &str, spec: &Tree) -> bool {
    let own = flows::all();
    let mut own = own.iter().map(|(_, tree)| tree);
    let own = own.find(|tree| tree.str_at(&["kind"]) == Some(kind) && meta::name(tree) == name);
    own.and_then(|tree| tree.get("spec"))
        .is_some_and(|own| !own.means_same(spec))
}

/// An object with nothing but its names.
fn object(group: &str, version: &str, kind: &str, name: &str) -> Tree {
    let api_version = match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    let mut tree = Tree::default();
    tree.set(&["apiVersion"], api_version);
    tree.set(&["kind"], kind);
    tree.set(&["metadata", "name"], name);
    tree
}

fn namespace(name: &str) -> (Gvr, Tree) {
    let tree = object("", "v1", "Namespace", name);
    (Gvr::new("", "v1", "namespaces"), tree)
}

/// Who pods run as that name no one. Other namespaces get theirs when they are seen; the first ones have theirs at once,
/// so that a pod can be the first thing in a new cluster.
fn default_account(namespace: &str) -> (Gvr, Tree) {
    let mut tree = object("", "v1", "ServiceAccount", "default");
    tree.set(&["metadata", "namespace"], namespace);
    (Gvr::new("", "v1", "serviceaccounts"), tree)
}

fn priority_class((name, value, about): &(&str, i64, &str)) -> (Gvr, Tree) {
    let mut tree = object("scheduling.k8s.io", "v1", "PriorityClass", name);
    tree.set(&["value"], *value);
    tree.set(&["description"], *about);
    (Gvr::new("scheduling.k8s.io", "v1", "priorityclasses"), tree)
}

/// One for each group and version that is served.
fn api_services(kinds: &Kinds) -> Vec<(Gvr, Tree)> {
    let mut versions: Vec<(&str, &str)> = kinds
        .iter()
        .map(|kind| (kind.about().gvr.group.as_str(), kind.about().gvr.version.as_str()))
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
    tree.set(&["metadata", "labels", label], "onstart");
    if !group.is_empty() {
        tree.set(&["spec", "group"], group);
    }
    tree.set(&["spec", "version"], version);
    tree.set(&["spec", "groupPriorityMinimum"], *group_priority);
    tree.set(&["spec", "versionPriority"], priority);
    Some((Gvr::new("apiregistration.k8s.io", "v1", "apiservices"), tree))
}

/// The words of a list whose words are joined by commas.
fn words(text: &str) -> Vec<Tree> {
    text.split(',').map(Tree::from).collect()
}

/// The groups of a list, where the group without a name is called `core`.
fn groups(text: &str) -> Vec<Tree> {
    let unnamed = |group: &str| Tree::from(if group == "core" { "" } else { group });
    text.split(',').map(unnamed).collect()
}

#[cfg(test)]
mod tests;
