//! Which nodes and which other pods a pod wants to be near to.

use crate::at::At;
use crate::shared::{label_selector, name, node_selector};

use super::Around;
use super::spread::validate_label_keys;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Reports what is wrong with affinities.
pub(super) fn validate(affinity: &At<'_>, around: &Around<'_>) {
    if !affinity.is_set() {
        return;
    }
    validate_node(&affinity.at("nodeAffinity"), around);
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = affinity.at(kind);
        for term in affinity.at(REQUIRED).items() {
            validate_pod_term(&term, around);
        }
        for weighted in affinity.at(PREFERRED).items() {
            validate_weight(&weighted.at("weight"));
            validate_pod_term(&weighted.at("podAffinityTerm"), around);
        }
    }
}

/// The selectors of pods and namespaces in an affinity.
pub(super) fn pod_selectors<'a>(affinity: &At<'a>) -> Vec<At<'a>> {
    let kinds = ["podAffinity", "podAntiAffinity"].map(|kind| affinity.at(kind));
    let required = kinds.iter().flat_map(|kind| kind.at(REQUIRED).items());
    let preferred = kinds.iter().flat_map(|kind| kind.at(PREFERRED).items());
    let terms = required.chain(preferred.map(|weighted| weighted.at("podAffinityTerm")));
    terms
        .flat_map(|term| [term.at("labelSelector"), term.at("namespaceSelector")])
        .collect()
}

/// Reports what is wrong with the nodes that are required.
pub(super) fn validate_required_nodes(affinity: &At<'_>) {
    let required = affinity.at("nodeAffinity").at(REQUIRED);
    if required.is_set() {
        node_selector::validate(&required, false);
    }
}

fn validate_node(affinity: &At<'_>, around: &Around<'_>) {
    let required = affinity.at(REQUIRED);
    if required.is_set() {
        node_selector::validate(&required, around.waived.node_affinity_values);
    }
    for term in affinity.at(PREFERRED).items() {
        validate_weight(&term.at("weight"));
        node_selector::validate_term(&term.at("preference"), true);
    }
}

fn validate_weight(weight: &At<'_>) {
    if !(1..=100).contains(&weight.int()) {
        weight.invalid("must be in the range 1-100");
    }
}

fn validate_pod_term(term: &At<'_>, around: &Around<'_>) {
    for selector in ["labelSelector", "namespaceSelector"] {
        let selector = term.at(selector);
        if around.waived.affinity_values {
            label_selector::validate_but_values(&selector);
        } else {
            label_selector::validate(&selector);
        }
    }
    for namespace in term.at("namespaces").strs() {
        name::report(namespace, name::label(namespace), &term.errors().at("namespace"));
    }
    validate_label_keys(term, &["matchLabelKeys", "mismatchLabelKeys"]);
    let key = term.at("topologyKey");
    if key.is_empty() {
        key.required("can not be empty");
    }
    name::check(&key, name::qualified);
}

/// Reports changes that let a pod go to more nodes than before.
pub(super) fn validate_narrowing(nodes: &At<'_>, old: &At<'_>) {
    let terms = nodes.at(REQUIRED).at("nodeSelectorTerms");
    let before = old.at(REQUIRED).at("nodeSelectorTerms");
    if !before.is_empty() && before.len() != terms.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return terms.invalid(detail);
    }
    for (term, before) in terms.items().zip(before.items()) {
        if !only_adds(&term, &before) {
            let detail = "only additions are allowed (no mutations or deletions)";
            term.invalid(detail);
        }
    }
}

fn only_adds(term: &At<'_>, old: &At<'_>) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    // A term without conditions matches nothing, so that any condition would let it match more.
    let empty = |term: &At<'_>| lists.iter().all(|list| term.at(list).is_empty());
    if empty(old) && !empty(term) {
        return false;
    }
    lists.iter().all(|list| {
        let (now, before) = (term.at(list), old.at(list));
        let kept = now
            .items()
            .zip(before.items())
            .all(|(now, before)| now.is_same(&before));
        now.len() >= before.len() && kept
    })
}
