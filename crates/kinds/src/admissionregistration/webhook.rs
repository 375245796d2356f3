//! Validation and defaults that both webhook configuration kinds share.

use std::collections::HashSet;

use setpoint_schema::{Tree, fields};
use setpoint_strategy::{FieldRef, label_selector, name};

use super::{FAILURE_POLICIES, MATCH_POLICIES, REINVOCATIONS, client_config, conditions, rule};

const DEFAULT_SECONDS: i64 = 10;
const DEFAULT_PORT: i64 = 443;
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];
const VERSIONS: &[&str] = &["v1", "v1beta1"];

/// Sets the defaults of a webhook.
pub(super) fn set_defaults(webhook: &mut Tree) {
    webhook.set_default(fields::FAILURE_POLICY, "Fail");
    webhook.set_default(fields::MATCH_POLICY, "Equivalent");
    webhook.child(fields::NAMESPACE_SELECTOR);
    webhook.child(fields::OBJECT_SELECTOR);
    webhook.set_default(fields::TIMEOUT_SECONDS, DEFAULT_SECONDS);
    webhook.items_mut(fields::RULES).for_each(rule::set_defaults);
    if let Some(service) = webhook.child(fields::CLIENT_CONFIG).find_mut(fields::SERVICE) {
        service.set_default(fields::PORT, DEFAULT_PORT);
    }
}

/// Validates the webhooks of a configuration. An update may keep what the old object already violates.
pub(super) fn validate(webhooks: &FieldRef<'_>, old: &FieldRef<'_>) {
    let mut before: Vec<&str> = old
        .items()
        .map(|webhook| webhook.at(fields::NAME).str())
        .collect();
    let had = before.len();
    before.sort_unstable();
    before.dedup();
    let may_repeat = before.len() < had;
    let keeps_conditions = keeps_conditions(webhooks, old);
    let mut seen: HashSet<&str> = HashSet::new();
    for webhook in webhooks.items() {
        validate_one(&webhook, old);
        if !keeps_conditions {
            conditions::validate(&webhook.at(fields::MATCH_CONDITIONS), false);
        }
        validate_versions(&webhook.at(fields::ADMISSION_REVIEW_VERSIONS), old);
        let name = webhook.at(fields::NAME);
        let is_new = seen.insert(name.str());
        if !may_repeat && !name.is_empty() && !is_new {
            name.duplicate();
        }
    }
}

fn validate_one(webhook: &FieldRef<'_>, old: &FieldRef<'_>) {
    validate_name(&webhook.at(fields::NAME));
    for rule in webhook.at(fields::RULES).items() {
        rule::validate(&rule);
    }
    webhook.at(fields::FAILURE_POLICY).one_of(FAILURE_POLICIES);
    webhook.at(fields::MATCH_POLICY).one_of(MATCH_POLICIES);
    validate_side_effects(&webhook.at(fields::SIDE_EFFECTS), old);
    let seconds = webhook.at(fields::TIMEOUT_SECONDS);
    if !(1..=30).contains(&seconds.int()) {
        seconds.invalid("the timeout value must be between 1 and 30 seconds");
    }
    label_selector::validate(&webhook.at(fields::NAMESPACE_SELECTOR));
    label_selector::validate(&webhook.at(fields::OBJECT_SELECTOR));
    if webhook
        .shape()
        .is_some_and(|shape| shape.member(fields::REINVOCATION_POLICY).is_some())
    {
        webhook.at(fields::REINVOCATION_POLICY).one_of(REINVOCATIONS);
    }
    client_config::validate(&webhook.at(fields::CLIENT_CONFIG));
}

/// Whether an update changes no match conditions, so that they stay as they are, valid or not.
fn keeps_conditions(webhooks: &FieldRef<'_>, old: &FieldRef<'_>) -> bool {
    let is_same = |(new, old): (FieldRef<'_>, FieldRef<'_>)| {
        new.at(fields::MATCH_CONDITIONS)
            .is_same(&old.at(fields::MATCH_CONDITIONS))
    };
    webhooks.len() == old.len() && webhooks.items().zip(old.items()).all(is_same)
}

fn validate_name(name: &FieldRef<'_>) {
    if !name.require() {
        return;
    }
    let violations = name::check_dns1123_subdomain(name.str());
    if !violations.is_empty() {
        name.invalid(&violations.join(","));
    } else if name.str().split('.').count() < 3 {
        name.invalid("should be a domain with at least three segments separated by dots");
    }
}

fn validate_side_effects(effects: &FieldRef<'_>, old: &FieldRef<'_>) {
    let harmless =
        |webhook: FieldRef<'_>| SIDE_EFFECTS[..2].contains(&webhook.at(fields::SIDE_EFFECTS).str());
    let allowed = if old.items().all(harmless) {
        &SIDE_EFFECTS[..2]
    } else {
        SIDE_EFFECTS
    };
    if !effects.is_set() {
        effects.required(&format!("must specify one of {}", allowed.join(", ")));
    } else if !allowed.contains(&effects.str()) {
        effects.not_supported(allowed);
    }
}

fn validate_versions(versions: &FieldRef<'_>, old: &FieldRef<'_>) {
    if versions.is_empty() {
        versions.required(&format!("must specify one of {}", VERSIONS.join(", ")));
        return;
    }
    let mut seen: HashSet<&str> = HashSet::new();
    for version in versions.items() {
        if !seen.insert(version.str()) {
            version.invalid("duplicate version");
            continue;
        }
        name::check(&version, name::service);
    }
    let known = |versions: &FieldRef<'_>| {
        versions.is_empty() || versions.strs().any(|version| VERSIONS.contains(&version))
    };
    let knew = old
        .items()
        .all(|webhook| known(&webhook.at(fields::ADMISSION_REVIEW_VERSIONS)));
    if knew && !known(versions) {
        versions.invalid(&format!("must include at least one of {}", VERSIONS.join(", ")));
    }
}
