//! Brings an object that a server makes by itself up to date where it is there already.
//!
//! Who has said on the object that it is not to be updated keeps it as it is. Otherwise what is missing is added: rules
//! of a role, subjects of a binding. What was added by others stays. Priority levels and flow schemas are put back to
//! what they were.

use setpoint_schema::Tree;

use crate::meta;

const ROLES: &str = "rbac.authorization.kubernetes.io/autoupdate";
const FLOWS: &str = "apf.kubernetes.io/autoupdate-spec";

/// What the object becomes; none if it is fine as it is.
pub fn reconciled(existing: &Tree, wanted: &Tree) -> Option<Tree> {
    let mut object = existing.clone();
    match wanted.str_at(&["kind"])? {
        "ClusterRole" | "Role" if is_updated(existing, ROLES) => add_rules(&mut object, wanted),
        "ClusterRoleBinding" | "RoleBinding" if is_updated(existing, ROLES) => {
            add_subjects(&mut object, wanted);
        }
        "FlowSchema" | "PriorityLevelConfiguration" if is_updated(existing, FLOWS) => {
            reset_spec(&mut object, wanted);
        }
        "Service" | "Endpoints" | "EndpointSlice" | "ConfigMap" => move_here(&mut object, wanted),
        _ => return None,
    }
    (!object.means_same(existing)).then_some(object)
}

fn is_updated(object: &Tree, annotation: &str) -> bool {
    meta::entry(object, "annotations", annotation) == Some("true")
}

fn add_rules(object: &mut Tree, wanted: &Tree) {
    add_labels(object, wanted);
    // A role that is gathered from others has its rules from them.
    if let Some(gathered) = wanted.get("aggregationRule") {
        object.set(&["aggregationRule"], gathered.clone());
        return;
    }
    let missing: Vec<Tree> = wanted
        .items("rules")
        .iter()
        .filter(|rule| !is_covered(object.items("rules"), rule))
        .cloned()
        .collect();
    extend(object, "rules", missing);
}

/// Whether these rules allow all that one does.
fn is_covered(rules: &[Tree], wanted: &Tree) -> bool {
    rules.iter().any(|rule| {
        let has = |field: &str, word: &Tree| {
            let mut words = rule.items(field).iter();
            words.any(|own| own == word || own.as_str() == Some("*"))
        };
        let fields = ["verbs", "apiGroups", "resources", "nonResourceURLs"];
        let named = rule.items("resourceNames");
        let names = wanted.items("resourceNames");
        let same_names =
            named.is_empty() || (!names.is_empty() && names.iter().all(|name| named.contains(name)));
        same_names
            && fields
                .iter()
                .all(|field| wanted.items(field).iter().all(|word| has(field, word)))
    })
}

fn add_subjects(object: &mut Tree, wanted: &Tree) {
    add_labels(object, wanted);
    let missing: Vec<Tree> = wanted
        .items("subjects")
        .iter()
        .filter(|subject| !object.items("subjects").iter().any(|own| own.means_same(subject)))
        .cloned()
        .collect();
    extend(object, "subjects", missing);
}

fn add_labels(object: &mut Tree, wanted: &Tree) {
    for field in ["labels", "annotations"] {
        let own = meta::find(wanted, field).and_then(Tree::as_map);
        for (key, value) in own.into_iter().flat_map(setpoint_schema::Map::iter) {
            object.child("metadata").child(field).fill(key, value.clone());
        }
    }
}

fn extend(object: &mut Tree, list: &str, items: Vec<Tree>) {
    if items.is_empty() {
        return;
    }
    match object.map_or_default().entry(list) {
        Tree::List(own) => own.extend(items),
        absent => *absent = Tree::from(items),
    }
}

fn reset_spec(object: &mut Tree, wanted: &Tree) {
    if let Some(spec) = wanted.get("spec") {
        object.set(&["spec"], spec.clone());
    }
}

/// The server may have moved since it made the object.
fn move_here(object: &mut Tree, wanted: &Tree) {
    for part in ["subsets", "endpoints", "ports", "data"] {
        if let Some(value) = wanted.get(part) {
            object.set(&[part], value.clone());
        }
    }
    if let Some(ports) = wanted.at(&["spec", "ports"]) {
        object.set(&["spec", "ports"], ports.clone());
    }
}
