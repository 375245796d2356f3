//! Node affinity, pod affinity and pod anti-affinity.

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, label_selector, name};

use crate::shared::node_selector;

use super::PodContext;
use super::topology_spread::validate_label_keys;

const REQUIRED: &str = fields::REQUIRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION;
const PREFERRED: &str = fields::PREFERRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION;

/// Validates affinities.
pub(super) fn validate(affinity: &FieldRef<'_>, pod_context: &PodContext<'_>) {
    if !affinity.is_set() {
        return;
    }
    validate_node(&affinity.at(fields::NODE_AFFINITY), pod_context);
    for kind in [fields::POD_AFFINITY, fields::POD_ANTI_AFFINITY] {
        let affinity = affinity.at(kind);
        for term in affinity.at(REQUIRED).items() {
            validate_pod_term(&term, pod_context);
        }
        for weighted in affinity.at(PREFERRED).items() {
            validate_weight(&weighted.at(fields::WEIGHT));
            validate_pod_term(&weighted.at(fields::POD_AFFINITY_TERM), pod_context);
        }
    }
}

/// The pod and namespace selectors of an affinity.
pub(super) fn pod_selectors<'a>(affinity: &FieldRef<'a>) -> Vec<FieldRef<'a>> {
    let kinds = [fields::POD_AFFINITY, fields::POD_ANTI_AFFINITY].map(|kind| affinity.at(kind));
    let required = kinds.iter().flat_map(|kind| kind.at(REQUIRED).items());
    let preferred = kinds.iter().flat_map(|kind| kind.at(PREFERRED).items());
    let terms = required.chain(preferred.map(|weighted| weighted.at(fields::POD_AFFINITY_TERM)));
    terms
        .flat_map(|term| {
            [
                term.at(fields::LABEL_SELECTOR),
                term.at(fields::NAMESPACE_SELECTOR),
            ]
        })
        .collect()
}

/// Validates the required node affinity.
pub(super) fn validate_required_nodes(affinity: &FieldRef<'_>) {
    let required = affinity.at(fields::NODE_AFFINITY).at(REQUIRED);
    if required.is_set() {
        node_selector::validate(&required, false);
    }
}

fn validate_node(affinity: &FieldRef<'_>, pod_context: &PodContext<'_>) {
    let required = affinity.at(REQUIRED);
    if required.is_set() {
        node_selector::validate(&required, pod_context.options.node_affinity_values);
    }
    for term in affinity.at(PREFERRED).items() {
        validate_weight(&term.at(fields::WEIGHT));
        node_selector::validate_term(&term.at(fields::PREFERENCE), true);
    }
}

fn validate_weight(weight: &FieldRef<'_>) {
    if !(1..=100).contains(&weight.int()) {
        weight.invalid("must be in the range 1-100");
    }
}

fn validate_pod_term(term: &FieldRef<'_>, pod_context: &PodContext<'_>) {
    for selector in [fields::LABEL_SELECTOR, fields::NAMESPACE_SELECTOR] {
        let selector = term.at(selector);
        if pod_context.options.affinity_values {
            label_selector::validate_but_values(&selector);
        } else {
            label_selector::validate(&selector);
        }
    }
    for namespace in term.at(fields::NAMESPACES).strs() {
        name::report(
            namespace,
            name::check_dns1123_label(namespace),
            &term.errors().at(fields::NAMESPACE),
        );
    }
    validate_label_keys(term, &[fields::MATCH_LABEL_KEYS, fields::MISMATCH_LABEL_KEYS]);
    let key = term.at(fields::TOPOLOGY_KEY);
    if key.is_empty() {
        key.required("can not be empty");
    }
    name::check(&key, name::check_qualified_name);
}

/// Reports changes of a gated pod's node affinity that would allow more nodes than before.
pub(super) fn validate_narrowing(nodes: &FieldRef<'_>, old: &FieldRef<'_>) {
    let terms = nodes.at(REQUIRED).at(fields::NODE_SELECTOR_TERMS);
    let before = old.at(REQUIRED).at(fields::NODE_SELECTOR_TERMS);
    if !before.is_empty() && before.len() != terms.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return terms.invalid(detail);
    }
    for (term, before) in terms.items().zip(before.items()) {
        if !only_adds_requirements(&term, &before) {
            let detail = "only additions are allowed (no mutations or deletions)";
            term.invalid(detail);
        }
    }
}

fn only_adds_requirements(term: &FieldRef<'_>, old: &FieldRef<'_>) -> bool {
    let lists = [fields::MATCH_EXPRESSIONS, fields::MATCH_FIELDS];
    // A term without expressions matches nothing, so adding any expression would allow more.
    let empty = |term: &FieldRef<'_>| lists.iter().all(|list| term.at(list).is_empty());
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
