//! What Deployments and ReplicaSets say of their pods: a selector, and a template that it selects.

use crate::at::At;
use crate::core::pod::template;
use crate::shared::{label_selector, name};

pub(crate) const MISMATCH: &str = "`selector` does not match template `labels`";

/// Reports what is wrong with selector and template; `old` is what the spec was before.
pub(super) fn validate(spec: &At<'_>, old: Option<&At<'_>>) {
    let selector = spec.at("selector");
    validate_selector(&selector, "empty selector is invalid for deployment");
    let template = spec.at("template");
    let labels = template.at("metadata").at("labels");
    let Some(selected) = label_selector::selects(&selector, &labels) else {
        return selector.invalid("invalid label selector");
    };
    if !selected {
        labels.invalid(MISMATCH);
    }
    validate_template(&template, old);
    template::require_always_restart(&template);
    forbid_deadline(&template, "ReplicaSet");
}

/// Reports what is wrong with a template; `old` is the spec in which another stood before.
pub(crate) fn validate_template(template: &At<'_>, old: Option<&At<'_>>) {
    match old.map(|old| old.at("template")).filter(At::is_set) {
        Some(old) => template::validate_again(template, &old),
        None => template::validate(template),
    }
}

/// Reports a selector that is not there, is none, or says nothing.
pub(super) fn validate_selector(selector: &At<'_>, empty: &str) {
    if !selector.is_set() {
        return selector.required("");
    }
    label_selector::validate(selector);
    if label_selector::is_empty(selector) {
        selector.invalid(empty);
    }
}

/// Reports a template whose pods would end after a while.
pub(crate) fn forbid_deadline(template: &At<'_>, kind: &str) {
    let deadline = template.at("spec").at("activeDeadlineSeconds");
    if deadline.is_set() {
        deadline.forbidden(&format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

/// What to tell the caller about an object that makes pods after its own name.
pub(crate) fn warnings(object: &At<'_>, old: Option<&At<'_>>) -> Vec<String> {
    let own = object.at("metadata").at("name").str();
    let recommended = old.is_none().then(|| name::recommend_label(own)).flatten();
    let specs = (object.at("spec"), old.map(|old| old.at("spec")));
    recommended
        .into_iter()
        .chain(template_warnings(&specs.0, specs.1.as_ref()))
        .collect()
}

/// What to tell the caller about the template in a spec, if something in the spec is new.
pub(crate) fn template_warnings(spec: &At<'_>, old: Option<&At<'_>>) -> Vec<String> {
    match old.is_some_and(|old| spec.is_same(old)) {
        true => Vec::new(),
        false => template::warnings(&spec.at("template")),
    }
}
