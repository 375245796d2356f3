//! Topology spread constraints.

use std::collections::{BTreeSet, HashMap};

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, label_selector, name};

use super::PodContext;

const ACTIONS: &[&str] = &["DoNotSchedule", "ScheduleAnyway"];
const POLICIES: &[&str] = &["Honor", "Ignore"];
const NO_SELECTOR: &str = "must not be specified when labelSelector is not set";
const IN_BOTH: &str = "exists in both matchLabelKeys and labelSelector";

/// Validates topology spread constraints.
pub(super) fn validate(constraints: &FieldRef<'_>, pod_context: &PodContext<'_>) {
    let pair = |constraint: &FieldRef<'_>| {
        let key = constraint.at(fields::TOPOLOGY_KEY).str().to_owned();
        (key, constraint.at(fields::WHEN_UNSATISFIABLE).str().to_owned())
    };
    // The last position of each pair: all before it are duplicates.
    let last: HashMap<(String, String), usize> = constraints
        .items()
        .enumerate()
        .map(|(at, constraint)| (pair(&constraint), at))
        .collect();
    for (at, constraint) in constraints.items().enumerate() {
        validate_one(&constraint);
        let (key, action) = pair(&constraint);
        if last.get(&(key.clone(), action.clone())) != Some(&at) {
            let field = constraint.errors().at("{topologyKey, whenUnsatisfiable}");
            field.duplicate(format!("{{{key}, {action}}}"));
        }
        validate_domains(&constraint.at(fields::MIN_DOMAINS), &action);
        for policy in [fields::NODE_AFFINITY_POLICY, fields::NODE_TAINTS_POLICY] {
            let policy = constraint.at(policy);
            if policy.is_set() && !POLICIES.contains(&policy.str()) {
                policy.not_supported(POLICIES);
            }
        }
        if pod_context.options.spread_label_keys {
            validate_legacy_label_keys(&constraint);
        } else {
            validate_label_keys(&constraint, &[fields::MATCH_LABEL_KEYS]);
        }
        if !pod_context.options.spread_selectors {
            label_selector::validate(&constraint.at(fields::LABEL_SELECTOR));
        }
    }
}

fn validate_one(constraint: &FieldRef<'_>) {
    let (skew, key, action) = (
        constraint.at(fields::MAX_SKEW),
        constraint.at(fields::TOPOLOGY_KEY),
        constraint.at(fields::WHEN_UNSATISFIABLE),
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

fn validate_domains(domains: &FieldRef<'_>, action: &str) {
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

/// Validates `matchLabelKeys` and, if listed second, `mismatchLabelKeys`.
pub(super) fn validate_label_keys(term: &FieldRef<'_>, lists: &[&str]) {
    let selector = term.at(fields::LABEL_SELECTOR);
    for list in lists {
        let keys = term.at(list);
        if !keys.is_empty() && !selector.is_set() {
            keys.forbidden(NO_SELECTOR);
            continue;
        }
        for key in keys.items() {
            name::check(&key, name::check_qualified_name);
        }
    }
    let keys = term.at(fields::MATCH_LABEL_KEYS);
    let mut known: BTreeSet<&str> = selector
        .at(fields::MATCH_LABELS)
        .entries()
        .map(|(key, _)| key)
        .collect();
    let positions = keys.strs().enumerate().map(|(at, key)| (key, at));
    let mut first: HashMap<&str, usize> = HashMap::new();
    positions.for_each(|(key, at)| _ = first.entry(key).or_insert(at));
    for expression in selector.at(fields::MATCH_EXPRESSIONS).items() {
        let key = expression.at(fields::KEY).str();
        let at = first.get(key).copied();
        // The server adds one expression for each key when a pod is created; a second one is the caller's.
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

/// The rule for objects from before keys were merged into selectors.
fn validate_legacy_label_keys(constraint: &FieldRef<'_>) {
    let (keys, selector) = (
        constraint.at(fields::MATCH_LABEL_KEYS),
        constraint.at(fields::LABEL_SELECTOR),
    );
    if keys.is_empty() {
        return;
    }
    if !selector.is_set() {
        keys.forbidden(NO_SELECTOR);
    }
    let expressions = selector.at(fields::MATCH_EXPRESSIONS).items();
    let selected: BTreeSet<&str> = expressions
        .map(|expression| expression.at(fields::KEY).str())
        .collect();
    for key in keys.items() {
        name::check(&key, name::check_qualified_name);
        if selector.at(fields::MATCH_LABELS).key(key.str()).is_set() || selected.contains(key.str()) {
            key.invalid(IN_BOTH);
        }
    }
}
