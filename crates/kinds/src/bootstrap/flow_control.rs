//! Bootstrap PriorityLevelConfigurations and FlowSchemas, parsed from `flows.txt`.
//!
//! `level` starts a priority level: name, type, shares, lendable percent; then queues, hand size and queue length if
//! it queues. `flow` starts a flow schema: name, priority level, precedence, distinguisher. Below it, `for` starts a
//! rule with its subjects, and the lines below that are verbs, groups, resources and namespaces, or verbs, `url` and
//! paths.

use setpoint_api::Gvr;
use setpoint_schema::{Tree, fields};

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
    tree.set(&[fields::METADATA, fields::ANNOTATIONS, UPDATED], "true");
    let (field, kind) = match parts[1] {
        "exempt" => (fields::EXEMPT, "Exempt"),
        _ => (fields::LIMITED, "Limited"),
    };
    tree.set(&[fields::SPEC, fields::TYPE], kind);
    let limits = tree.child(fields::SPEC).child(field);
    limits.set(&[fields::NOMINAL_CONCURRENCY_SHARES], number(parts[2]));
    limits.set(&[fields::LENDABLE_PERCENT], number(parts[3]));
    if kind == "Limited" {
        let response = limits.child(fields::LIMIT_RESPONSE);
        response.set(&[fields::TYPE], if parts.len() > 4 { "Queue" } else { "Reject" });
        for (at, field) in [fields::QUEUES, fields::HAND_SIZE, fields::QUEUE_LENGTH_LIMIT]
            .iter()
            .enumerate()
        {
            if let Some(text) = parts.get(4 + at) {
                response.set(&[fields::QUEUING, field], number(text));
            }
        }
    }
    (Gvr::new(GROUP, "v1", "prioritylevelconfigurations"), tree)
}

fn flow(parts: &[&str]) -> (Gvr, Tree) {
    let mut tree = object(GROUP, "v1", "FlowSchema", parts[0]);
    tree.set(&[fields::METADATA, fields::ANNOTATIONS, UPDATED], "true");
    let spec = tree.child(fields::SPEC);
    spec.set(&[fields::PRIORITY_LEVEL_CONFIGURATION, fields::NAME], parts[1]);
    spec.set(&[fields::MATCHING_PRECEDENCE], number(parts[2]));
    if parts[3] != "-" {
        spec.set(&[fields::DISTINGUISHER_METHOD, fields::TYPE], parts[3]);
    }
    (Gvr::new(GROUP, "v1", "flowschemas"), tree)
}

fn begin_rule(schema: &mut Tree, subjects: &[&str]) {
    let mut rule = Tree::default();
    rule.set(
        &[fields::SUBJECTS],
        subjects.iter().map(|text| subject(text)).collect::<Vec<_>>(),
    );
    push(schema.child(fields::SPEC), fields::RULES, rule);
}

fn subject(text: &str) -> Tree {
    let (kind, name) = text.split_once(':').unwrap_or((text, ""));
    let mut subject = Tree::default();
    subject.set(&[fields::KIND], kind);
    match (kind, name.split_once('/')) {
        ("ServiceAccount", Some((namespace, name))) => {
            subject.set(&[fields::SERVICE_ACCOUNT, fields::NAMESPACE], namespace);
            subject.set(&[fields::SERVICE_ACCOUNT, fields::NAME], name);
        }
        _ => subject.set(&[&kind.to_lowercase(), fields::NAME], name),
    }
    subject
}

fn add_to_rule(schema: &mut Tree, parts: &[&str]) {
    let Some(rule) = schema.child(fields::SPEC).items_mut(fields::RULES).last() else {
        return;
    };
    let mut item = Tree::default();
    match parts {
        [verbs, "url", urls] => {
            item.set(&[fields::VERBS], comma_list(verbs));
            item.set(&[fields::NON_RESOURCE_URLS], comma_list(urls));
            push(rule, fields::NON_RESOURCE_RULES, item);
        }
        [verbs, of, resources, namespaces, rest @ ..] => {
            item.set(&[fields::VERBS], comma_list(verbs));
            item.set(&[fields::API_GROUPS], groups(of));
            item.set(&[fields::RESOURCES], comma_list(resources));
            if rest.contains(&"+cluster") {
                item.set(&[fields::CLUSTER_SCOPE], true);
            }
            item.set(&[fields::NAMESPACES], comma_list(namespaces));
            push(rule, fields::RESOURCE_RULES, item);
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
