//! Reconciliation of bootstrap objects that already exist.
//!
//! A role or binding whose autoupdate annotation is false stays as it is. Otherwise missing rules of roles and missing
//! subjects of bindings are added, and additions by users stay. Specs of priority levels and flow schemas are reset.

use setpoint_schema::{Tree, fields};
use setpoint_strategy::meta;

const ROLES: &str = "rbac.authorization.kubernetes.io/autoupdate";
const FLOWS: &str = "apf.kubernetes.io/autoupdate-spec";
/// The FlowSchemas and priority levels that priority and fairness cannot work without.
const MANDATORY_FLOWS: &[&str] = &["exempt", "catch-all"];

/// The reconciled object; `None` if nothing changes.
pub fn reconcile(existing: &Tree, desired: &Tree) -> Option<Tree> {
    let mut object = existing.clone();
    match desired.str_at(&[fields::KIND])? {
        "ClusterRole" | "Role" if is_autoupdated(existing, ROLES) => add_rules(&mut object, desired),
        "ClusterRoleBinding" | "RoleBinding" if is_autoupdated(existing, ROLES) => {
            add_subjects(&mut object, desired);
        }
        "FlowSchema" | "PriorityLevelConfiguration" => revise_flow_control(&mut object, desired),
        "Service" | "Endpoints" | "EndpointSlice" | "ConfigMap" => update_addresses(&mut object, desired),
        _ => return None,
    }
    (!object.semantic_eq(existing)).then_some(object)
}

fn is_autoupdated(object: &Tree, annotation: &str) -> bool {
    meta::entry(object, fields::ANNOTATIONS, annotation) == Some("true")
}

fn add_rules(object: &mut Tree, desired: &Tree) {
    add_labels(object, desired);
    // The aggregation controller sets the rules of an aggregated role.
    if let Some(gathered) = desired.get(fields::AGGREGATION_RULE) {
        object.set(&[fields::AGGREGATION_RULE], gathered.clone());
        return;
    }
    let missing: Vec<Tree> = desired
        .items(fields::RULES)
        .iter()
        .filter(|rule| !is_covered(object.items(fields::RULES), rule))
        .cloned()
        .collect();
    extend(object, fields::RULES, missing);
}

/// Whether these rules grant everything that one rule grants.
fn is_covered(rules: &[Tree], desired: &Tree) -> bool {
    rules.iter().any(|rule| {
        let has = |field: &str, word: &Tree| {
            let mut words = rule.items(field).iter();
            words.any(|existing| existing == word || existing.as_str() == Some("*"))
        };
        let fields = [
            fields::VERBS,
            fields::API_GROUPS,
            fields::RESOURCES,
            fields::NON_RESOURCE_URLS,
        ];
        let named = rule.items(fields::RESOURCE_NAMES);
        let names = desired.items(fields::RESOURCE_NAMES);
        let same_names =
            named.is_empty() || (!names.is_empty() && names.iter().all(|name| named.contains(name)));
        same_names
            && fields
                .iter()
                .all(|field| desired.items(field).iter().all(|word| has(field, word)))
    })
}

fn add_subjects(object: &mut Tree, desired: &Tree) {
    add_labels(object, desired);
    let missing: Vec<Tree> = desired
        .items(fields::SUBJECTS)
        .iter()
        .filter(|subject| {
            !object
                .items(fields::SUBJECTS)
                .iter()
                .any(|existing| existing.semantic_eq(subject))
        })
        .cloned()
        .collect();
    extend(object, fields::SUBJECTS, missing);
}

fn add_labels(object: &mut Tree, desired: &Tree) {
    for field in [fields::LABELS, fields::ANNOTATIONS] {
        let entries = meta::find(desired, field).and_then(Tree::as_map);
        for (key, value) in entries.into_iter().flat_map(setpoint_schema::Map::iter) {
            object
                .child(fields::METADATA)
                .child(field)
                .set_default(key, value.clone());
        }
    }
}

fn extend(object: &mut Tree, list: &str, items: Vec<Tree>) {
    if items.is_empty() {
        return;
    }
    match object.map_or_default().entry(list) {
        Tree::List(existing) => existing.extend(items),
        absent => *absent = Tree::from(items),
    }
}

/// Resets the spec of a mandatory object always, and that of a suggested one unless its annotation forbids it or, without
/// a valid annotation, its spec was changed. The annotation shows which of them it was.
fn revise_flow_control(object: &mut Tree, desired: &Tree) {
    let annotation = meta::entry(object, fields::ANNOTATIONS, FLOWS).and_then(parse_bool);
    let is_mandatory = MANDATORY_FLOWS.contains(&meta::name(desired));
    let is_updated = is_mandatory || annotation.unwrap_or_else(|| meta::int(object, fields::GENERATION) == 1);
    if annotation != Some(is_updated) {
        let text = if is_updated { "true" } else { "false" };
        object.set(&[fields::METADATA, fields::ANNOTATIONS, FLOWS], text);
    }
    if let Some(spec) = desired.get(fields::SPEC).filter(|_| is_updated) {
        object.set(&[fields::SPEC], spec.clone());
    }
}

/// Go's `strconv.ParseBool`.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Updates the addresses and ports of the server, which may have changed since the last start.
fn update_addresses(object: &mut Tree, desired: &Tree) {
    for part in [fields::SUBSETS, fields::ENDPOINTS, fields::PORTS, fields::DATA] {
        if let Some(value) = desired.get(part) {
            object.set(&[part], value.clone());
        }
    }
    if let Some(ports) = desired.at(&[fields::SPEC, fields::PORTS]) {
        object.set(&[fields::SPEC, fields::PORTS], ports.clone());
    }
}
