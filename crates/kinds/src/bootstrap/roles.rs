//! Roles and bindings that every cluster has, read from `roles.txt`.
//!
//! A line that begins with a kind begins an object: its name, behind its namespace and a slash if it has one; for a
//! binding the role; then `+label` for a label that says `true` and `?label` for one that the roles it gathers have.
//! The lines below it, further in, are its rules (verbs, groups, resources, perhaps names; or verbs, `url`, paths) or
//! its subjects (kind, name). Words of a list are joined by commas, and the group without a name is `core`.
//!
//! ```text
//! ClusterRole system:basic-user
//!   create authorization.k8s.io selfsubjectaccessreviews,selfsubjectrulesreviews
//! ClusterRoleBinding system:basic-user ClusterRole/system:basic-user
//!   Group system:authenticated
//! ```

use setpoint_api::Gvr;
use setpoint_schema::Tree;

use super::{groups, object, words};

const TEXT: &str = include_str!("roles.txt");
const GROUP: &str = "rbac.authorization.k8s.io";

/// All roles and bindings.
pub(super) fn all() -> Vec<(Gvr, Tree)> {
    let mut objects: Vec<(Gvr, Tree)> = Vec::new();
    for line in TEXT.lines().filter(|line| !line.starts_with('#')) {
        match (line.strip_prefix("  "), objects.last_mut()) {
            (Some(part), Some((_, object))) => add(object, part),
            _ => objects.push(begin(line)),
        }
    }
    objects
}

/// An object as its first line tells it.
fn begin(line: &str) -> (Gvr, Tree) {
    let mut parts = line.split(' ');
    let kind = parts.next().unwrap_or_default();
    let name = parts.next().unwrap_or_default();
    let (namespace, name) = match name.split_once('/') {
        Some((namespace, name)) if !kind.starts_with("Cluster") => (Some(namespace), name),
        _ => (None, name),
    };
    let mut tree = object(GROUP, "v1", kind, name);
    if let Some(namespace) = namespace {
        tree.set(&["metadata", "namespace"], namespace);
    }
    let meta = tree.child("metadata");
    meta.set(&["labels", "kubernetes.io/bootstrapping"], "rbac-defaults");
    meta.set(
        &["annotations", "rbac.authorization.kubernetes.io/autoupdate"],
        "true",
    );
    for part in parts {
        add_to_head(&mut tree, part);
    }
    let resource = format!("{}s", kind.to_lowercase());
    (Gvr::new(GROUP, "v1", &resource), tree)
}

fn add_to_head(tree: &mut Tree, part: &str) {
    if let Some(label) = part.strip_prefix('+') {
        tree.set(&["metadata", "labels", label], "true");
    } else if let Some(label) = part.strip_prefix('?') {
        let mut selector = Tree::default();
        selector.set(&["matchLabels", label], "true");
        tree.set(&["aggregationRule", "clusterRoleSelectors"], vec![selector]);
    } else if let Some((kind, name)) = part.split_once('/') {
        tree.set(&["roleRef", "apiGroup"], GROUP);
        tree.set(&["roleRef", "kind"], kind);
        tree.set(&["roleRef", "name"], name);
    }
}

/// Adds a rule to a role, or a subject to a binding.
fn add(object: &mut Tree, part: &str) {
    let (list, item) = match object.get("roleRef") {
        Some(_) => ("subjects", subject(part)),
        None => ("rules", rule(part)),
    };
    let items = object.map_or_default().entry(list);
    match items {
        Tree::List(items) => items.push(item),
        absent => *absent = Tree::from(vec![item]),
    }
}

fn rule(line: &str) -> Tree {
    let parts: Vec<&str> = line.split(' ').collect();
    let mut rule = Tree::default();
    rule.set(&["verbs"], words(parts[0]));
    match parts[1..] {
        ["url", urls] => rule.set(&["nonResourceURLs"], words(urls)),
        [of, resources, ref names @ ..] => {
            rule.set(&["apiGroups"], groups(of));
            rule.set(&["resources"], words(resources));
            if let [names] = names {
                rule.set(&["resourceNames"], words(names));
            }
        }
        _ => {}
    }
    rule
}

fn subject(line: &str) -> Tree {
    let (kind, name) = line.split_once(' ').unwrap_or((line, ""));
    let mut subject = Tree::default();
    subject.set(&["kind"], kind);
    match (kind, name.split_once('/')) {
        ("ServiceAccount", Some((namespace, name))) => {
            subject.set(&["name"], name);
            subject.set(&["namespace"], namespace);
        }
        _ => {
            subject.set(&["apiGroup"], GROUP);
            subject.set(&["name"], name);
        }
    }
    subject
}
