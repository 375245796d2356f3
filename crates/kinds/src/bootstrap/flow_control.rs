//! Bootstrap PriorityLevelConfigurations and FlowSchemas, parsed from `flows.txt`.
//!
//! `level` starts a priority level: name, type, shares, lendable percent; then queues, hand size and queue length if
//! it queues. `flow` starts a flow schema: name, priority level, precedence, distinguisher. Below it, `for` starts a
//! rule with its subjects, and the lines below that are verbs, groups, resources and namespaces, or verbs, `url` and
//! paths.

use setpoint_api::Gvr;
use setpoint_schema::Tree;

use super::{comma_list, groups, object};

const TEXT: &str = include_str!("flows.txt");
const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const UPDATED: &str = "apf.kubernetes.io/autoupdate-spec";

/// All bootstrap priority levels and flow schemas.
pub(super) fn all() -> Vec<(Gvr, Tree)> {
    let mut objects: Vec<(Gvr, Tree)> = Vec::new();
    for line in TEXT.lines() {
        let parts: Vec<&str> = line.split_whitespace().collect();
        match (parts.as_slice(), objects.last_mut()) {
            (["#", ..], _) => {}
            (["level", rest @ ..], _) => objects.push(level(rest)),
            (["flow", rest @ ..], _) => objects.push(flow(rest)),
            (["for", subjects @ ..], Some((_, schema))) => begin_rule(schema, subjects),
            (rule, Some((_, schema))) => add_to_rule(schema, rule),
            _ => {}
        }
    }
    objects
}

fn level(parts: &[&str]) -> (Gvr, Tree) {
    let mut tree = object(GROUP, "v1", "PriorityLevelConfiguration", parts[0]);
    tree.set(&["metadata", "annotations", UPDATED], "true");
    let (field, kind) = match parts[1] {
        "exempt" => ("exempt", "Exempt"),
        _ => ("limited", "Limited"),
    };
    tree.set(&["spec", "type"], kind);
    let limits = tree.child("spec").child(field);
    limits.set(&["nominalConcurrencyShares"], number(parts[2]));
    limits.set(&["lendablePercent"], number(parts[3]));
    if kind == "Limited" {
        let response = limits.child("limitResponse");
        response.set(&["type"], if parts.len() > 4 { "Queue" } else { "Reject" });
        for (at, field) in ["queues", "handSize", "queueLengthLimit"].iter().enumerate() {
            if let Some(text) = parts.get(4 + at) {
                response.set(&["queuing", field], number(text));
            }
        }
    }
    (Gvr::new(GROUP, "v1", "prioritylevelconfigurations"), tree)
}

fn flow(parts: &[&str]) -> (Gvr, Tree) {
    let mut tree = object(GROUP, "v1", "FlowSchema", parts[0]);
    tree.set(&["metadata", "annotations", UPDATED], "true");
    let spec = tree.child("spec");
    spec.set(&["priorityLevelConfiguration", "name"], parts[1]);
    spec.set(&["matchingPrecedence"], number(parts[2]));
    if parts[3] != "-" {
        spec.set(&["distinguisherMethod", "type"], parts[3]);
    }
    (Gvr::new(GROUP, "v1", "flowschemas"), tree)
}

fn begin_rule(schema: &mut Tree, subjects: &[&str]) {
    let mut rule = Tree::default();
    rule.set(
        &["subjects"],
        subjects.iter().map(|text| subject(text)).collect::<Vec<_>>(),
    );
    push(schema.child("spec"), "rules", rule);
}

fn subject(text: &str) -> Tree {
    let (kind, name) = text.split_once(':').unwrap_or((text, ""));
    let mut subject = Tree::default();
    subject.set(&["kind"], kind);
    match (kind, name.split_once('/')) {
        ("ServiceAccount", Some((namespace, name))) => {
            subject.set(&["serviceAccount", "namespace"], namespace);
            subject.set(&["serviceAccount", "name"], name);
        }
        _ => subject.set(&[&kind.to_lowercase(), "name"], name),
    }
    subject
}

fn add_to_rule(schema: &mut Tree, parts: &[&str]) {
    let Some(rule) = schema.child("spec").items_mut("rules").last() else {
        return;
    };
    let mut item = Tree::default();
    match parts {
        [verbs, "url", urls] => {
            item.set(&["verbs"], comma_list(verbs));
            item.set(&["nonResourceURLs"], comma_list(urls));
            push(rule, "nonResourceRules", item);
        }
        [verbs, of, resources, namespaces, rest @ ..] => {
            item.set(&["verbs"], comma_list(verbs));
            item.set(&["apiGroups"], groups(of));
            item.set(&["resources"], comma_list(resources));
            if rest.contains(&"+cluster") {
                item.set(&["clusterScope"], true);
            }
            item.set(&["namespaces"], comma_list(namespaces));
            push(rule, "resourceRules", item);
        }
        _ => {}
    }
}

fn push(object: &mut Tree, list: &str, item: Tree) {
    match object.map_or_default().entry(list) {
        Tree::List(items) => items.push(item),
        absent => *absent = Tree::from(vec![item]),
    }
}

fn number(text: &str) -> i64 {
    text.parse().expect("flows.txt has valid numbers")
}
