//! How pods are spread over places.

use std::collections::BTreeSet;

use crate::at::At;
use crate::shared::{label_selector, name};

use super::Around;

const ACTIONS: &[&str] = &["DoNotSchedule", "ScheduleAnyway"];
const POLICIES: &[&str] = &["Honor", "Ignore"];
const NO_SELECTOR: &str = "must not be specified when labelSelector is not set";
const IN_BOTH: &str = "exists in both matchLabelKeys and labelSelector";

/// Reports what is wrong with constraints.
pub(super) fn validate(constraints: &At<'_>, around: &Around<'_>) {
    let pair = |constraint: &At<'_>| {
        let key = constraint.at("topologyKey").str().to_owned();
        (key, constraint.at("whenUnsatisfiable").str().to_owned())
    };
    for (at, constraint) in constraints.items().enumerate() {
        validate_one(&constraint);
        let (key, action) = pair(&constraint);
        if constraints
            .items()
            .skip(at + 1)
            .any(|other| pair(&other) == (key.clone(), action.clone()))
        {
            let place = constraint.errors().at("{topologyKey, whenUnsatisfiable}");
            place.duplicate(format!("{{{key}, {action}}}"));
        }
        validate_domains(&constraint.at("minDomains"), &action);
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = constraint.at(policy);
            if policy.is_set() && !POLICIES.contains(&policy.str()) {
                policy.not_supported(POLICIES);
            }
        }
        if around.waived.spread_label_keys {
            validate_keys_of_old(&constraint);
        } else {
            validate_label_keys(&constraint, &["matchLabelKeys"]);
        }
        if !around.waived.spread_selectors {
            label_selector::validate(&constraint.at("labelSelector"));
        }
    }
}

fn validate_one(constraint: &At<'_>) {
    let (skew, key, action) = (
        constraint.at("maxSkew"),
        constraint.at("topologyKey"),
        constraint.at("whenUnsatisfiable"),
    );
    if skew.int() <= 0 {
        skew.invalid("must be greater than zero");
    }
    if key.is_empty() {
        key.required("can not be empty");
    }
    if !ACTIONS.contains(&action.str()) {
        action.not_supported(ACTIONS);
    }
}

fn validate_domains(domains: &At<'_>, action: &str) {
    if !domains.is_set() {
        return;
    }
    if domains.int() <= 0 {
        domains.invalid("must be greater than zero");
    }
    if action != "DoNotSchedule" {
        domains.invalid(&format!(
            "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        ));
    }
}

/// Reports what is wrong with keys whose values come from the pod. The second list, if there is one, is of keys whose
/// values must differ.
pub(super) fn validate_label_keys(term: &At<'_>, lists: &[&str]) {
    let selector = term.at("labelSelector");
    for list in lists {
        let keys = term.at(list);
        if !keys.is_empty() && !selector.is_set() {
            keys.forbidden(NO_SELECTOR);
            continue;
        }
        for key in keys.items() {
            name::check(&key, name::qualified);
        }
    }
    let keys = term.at("matchLabelKeys");
    let mut known: BTreeSet<&str> = selector.at("matchLabels").entries().map(|(key, _)| key).collect();
    for expression in selector.at("matchExpressions").items() {
        let key = expression.at("key").str();
        let at = keys.strs().position(|other| other == key);
        // The key itself adds one expression when a pod is made; a second one is the caller's.
        if let (Some(at), false) = (at, known.insert(key)) {
            term.errors().index(at).invalid(key, IN_BOTH);
        }
    }
    if let [_, others] = lists {
        let others: BTreeSet<&str> = term.at(others).strs().collect();
        for key in keys.items().filter(|key| others.contains(key.str())) {
            key.invalid("exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
}

/// The rule of objects from before keys were folded into selectors.
fn validate_keys_of_old(constraint: &At<'_>) {
    let (keys, selector) = (constraint.at("matchLabelKeys"), constraint.at("labelSelector"));
    if keys.is_empty() {
        return;
    }
    if !selector.is_set() {
        keys.forbidden(NO_SELECTOR);
    }
    let expressions = selector.at("matchExpressions");
    for key in keys.items() {
        name::check(&key, name::qualified);
        let mut expressions = expressions.items();
        if selector.at("matchLabels").key(key.str()).is_set()
            || expressions.any(|expression| expression.at("key").str() == key.str())
        {
            key.invalid(IN_BOTH);
        }
    }
}
