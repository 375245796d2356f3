//! Bootstrap roles and role bindings, parsed from `roles.txt`.
//!
//! A line that starts with a kind starts an object: its name, prefixed by `namespace/` if it has one; for a
//! binding the role; then `+label` for a label with the value `true` and `?label` for the label that its aggregation rule selects.
//! The indented lines below it are its rules (verbs, groups, resources, optional names; or verbs, `url`, paths) or
//! its subjects (kind, name). Items of a list are separated by commas, and the core group is `core`.
//!
//! ```text
//! ClusterRole system:basic-user
//!   create authorization.k8s.io selfsubjectaccessreviews,selfsubjectrulesreviews
//! ClusterRoleBinding system:basic-user ClusterRole/system:basic-user
//!   Group system:authenticated
//! ```

use setpoint_api::Gvr;
use setpoint_schema::{Tree, fields};

use super::{comma_list, groups, object};

const TEXT: &str = include_str!("roles.txt");
/// The role of metrics-server's manifests that lets users who may view a namespace read its metrics.
const METRICS_READER: &str = "\
ClusterRole system:aggregated-metrics-reader +rbac.authorization.k8s.io/aggregate-to-admin \
+rbac.authorization.k8s.io/aggregate-to-edit +rbac.authorization.k8s.io/aggregate-to-view
  get,list,watch metrics.k8s.io nodes,pods
";
const GROUP: &str = "rbac.authorization.k8s.io";

/// All bootstrap roles and role bindings.
pub(super) fn all() -> Vec<(Gvr, Tree)> {
    parse(TEXT)
}

/// The role that reads the metrics API.
pub(super) fn metrics_reader() -> Vec<(Gvr, Tree)> {
    parse(METRICS_READER)
}

fn parse(text: &str) -> Vec<(Gvr, Tree)> {
    let mut objects: Vec<(Gvr, Tree)> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match (line.strip_prefix("  "), objects.last_mut()) {
            (Some(part), Some((_, object))) => parse_item(object, part),
            _ => objects.push(parse_header(line)),
        }
    }
    objects
}

/// An object from its first line.
fn parse_header(line: &str) -> (Gvr, Tree) {
    let mut parts = line.split(' ');
    let kind = parts.next().unwrap_or_default();
    let name = parts.next().unwrap_or_default();
    let (namespace, name) = match name.split_once('/') {
        Some((namespace, name)) if !kind.starts_with("Cluster") => (Some(namespace), name),
        _ => (None, name),
    };
    let mut tree = object(GROUP, "v1", kind, name);
    if let Some(namespace) = namespace {
        tree.set(&[fields::METADATA, fields::NAMESPACE], namespace);
    }
    let meta = tree.child(fields::METADATA);
    meta.set(&[fields::LABELS, "kubernetes.io/bootstrapping"], "rbac-defaults");
    meta.set(
        &[fields::ANNOTATIONS, "rbac.authorization.kubernetes.io/autoupdate"],
        "true",
    );
    for part in parts {
        parse_header_item(&mut tree, part);
    }
    let resource = format!("{}s", kind.to_lowercase());
    (Gvr::new(GROUP, "v1", &resource), tree)
}

fn parse_header_item(tree: &mut Tree, part: &str) {
    if let Some(label) = part.strip_prefix('+') {
        tree.set(&[fields::METADATA, fields::LABELS, label], "true");
    } else if let Some(label) = part.strip_prefix('?') {
        let mut selector = Tree::default();
        selector.set(&[fields::MATCH_LABELS, label], "true");
        tree.set(
            &[fields::AGGREGATION_RULE, fields::CLUSTER_ROLE_SELECTORS],
            vec![selector],
        );
    } else if let Some((kind, name)) = part.split_once('/') {
        tree.set(&[fields::ROLE_REF, fields::API_GROUP], GROUP);
        tree.set(&[fields::ROLE_REF, fields::KIND], kind);
        tree.set(&[fields::ROLE_REF, fields::NAME], name);
    }
}

/// Adds a rule to a role, or a subject to a binding.
fn parse_item(object: &mut Tree, part: &str) {
    let (list, item) = match object.get(fields::ROLE_REF) {
        Some(_) => (fields::SUBJECTS, subject(part)),
        None => (fields::RULES, rule(part)),
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
    rule.set(&[fields::VERBS], comma_list(parts[0]));
    match parts[1..] {
        ["url", urls] => rule.set(&[fields::NON_RESOURCE_URLS], comma_list(urls)),
        [of, resources, ref names @ ..] => {
            rule.set(&[fields::API_GROUPS], groups(of));
            rule.set(&[fields::RESOURCES], comma_list(resources));
            if let [names] = names {
                rule.set(&[fields::RESOURCE_NAMES], comma_list(names));
            }
        }
        _ => {}
    }
    rule
}

fn subject(line: &str) -> Tree {
    let (kind, name) = line.split_once(' ').unwrap_or((line, ""));
    let mut subject = Tree::default();
    subject.set(&[fields::KIND], kind);
    match (kind, name.split_once('/')) {
        ("ServiceAccount", Some((namespace, name))) => {
            subject.set(&[fields::NAME], name);
            subject.set(&[fields::NAMESPACE], namespace);
        }
        _ => {
            subject.set(&[fields::API_GROUP], GROUP);
            subject.set(&[fields::NAME], name);
        }
    }
    subject
}
