//! What Deployments and ReplicaSets share: a label selector, and a template that it selects.

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, RequestFacts, label_selector, name};

use crate::core::pod::template;

pub(crate) const MISMATCH: &str = "`selector` does not match template `labels`";

/// Validates selector and template; `old` is the previous spec.
pub(super) fn validate(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>, facts: &RequestFacts) {
    let selector = spec.at(fields::SELECTOR);
    validate_selector(&selector, "empty selector is invalid for deployment");
    let template = spec.at(fields::TEMPLATE);
    let labels = template.at(fields::METADATA).at(fields::LABELS);
    let Some(selected) = label_selector::selects(&selector, &labels) else {
        return selector.invalid("invalid label selector");
    };
    if !selected {
        labels.invalid(MISMATCH);
    }
    validate_template(&template, old, facts);
    template::require_always_restart(&template);
    forbid_deadline(&template, "ReplicaSet");
}

/// Validates a template; `old` is the previous spec.
pub(crate) fn validate_template(template: &FieldRef<'_>, old: Option<&FieldRef<'_>>, facts: &RequestFacts) {
    match old.map(|old| old.at(fields::TEMPLATE)).filter(FieldRef::is_set) {
        Some(old) => template::validate_for_update(template, &old, facts),
        None => template::validate(template, facts),
    }
}

/// Reports a selector that is missing, invalid or empty.
pub(super) fn validate_selector(selector: &FieldRef<'_>, empty: &str) {
    if !selector.is_set() {
        return selector.required("");
    }
    label_selector::validate(selector);
    if label_selector::is_empty(selector) {
        selector.invalid(empty);
    }
}

/// Reports a template with `activeDeadlineSeconds`, whose pods would end after a while.
pub(crate) fn forbid_deadline(template: &FieldRef<'_>, kind: &str) {
    let deadline = template.at(fields::SPEC).at(fields::ACTIVE_DEADLINE_SECONDS);
    if deadline.is_set() {
        deadline.forbidden(&format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

/// Warnings about an object whose pods are named after it.
pub(crate) fn warnings(object: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
    let name = object.at(fields::METADATA).at(fields::NAME).str();
    let recommended = old.is_none().then(|| name::recommend_label(name)).flatten();
    let specs = (object.at(fields::SPEC), old.map(|old| old.at(fields::SPEC)));
    recommended
        .into_iter()
        .chain(template_warnings(&specs.0, specs.1.as_ref()))
        .collect()
}

/// Warnings about the pod template in a spec; none unless the spec changes.
pub(crate) fn template_warnings(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
    match old.is_some_and(|old| spec.is_same(old)) {
        true => Vec::new(),
        false => template::warnings(&spec.at(fields::TEMPLATE)),
    }
}
