//! What both kinds of webhook configurations share.

use setpoint_schema::Tree;

use super::{FAILURE_POLICIES, MATCH_POLICIES, REINVOCATIONS, client_config, conditions, rule};
use crate::at::At;
use crate::shared::{label_selector, name};

const DEFAULT_SECONDS: i64 = 10;
const DEFAULT_PORT: i64 = 443;
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];
const VERSIONS: &[&str] = &["v1", "v1beta1"];

/// Fills in what every webhook has.
pub(super) fn fill(webhook: &mut Tree) {
    webhook.fill("failurePolicy", "Fail");
    webhook.fill("matchPolicy", "Equivalent");
    webhook.child("namespaceSelector");
    webhook.child("objectSelector");
    webhook.fill("timeoutSeconds", DEFAULT_SECONDS);
    webhook.items_mut("rules").for_each(rule::fill);
    if let Some(service) = webhook.child("clientConfig").find_mut("service") {
        service.fill("port", DEFAULT_PORT);
    }
}

/// Reports what is wrong with the webhooks of a configuration. What was wrong before may stay so.
pub(super) fn validate(webhooks: &At<'_>, old: &At<'_>) {
    let mut before: Vec<&str> = old.items().map(|webhook| webhook.at("name").str()).collect();
    let had = before.len();
    before.sort_unstable();
    before.dedup();
    let may_repeat = before.len() < had;
    let mut seen: Vec<&str> = Vec::new();
    for webhook in webhooks.items() {
        validate_one(&webhook, old);
        validate_versions(&webhook.at("admissionReviewVersions"), old);
        let own = webhook.at("name");
        if !may_repeat && !own.is_empty() && seen.contains(&own.str()) {
            own.duplicate();
        }
        seen.push(own.str());
    }
}

fn validate_one(webhook: &At<'_>, old: &At<'_>) {
    validate_name(&webhook.at("name"));
    for rule in webhook.at("rules").items() {
        rule::validate(&rule);
    }
    webhook.at("failurePolicy").one_of(FAILURE_POLICIES);
    webhook.at("matchPolicy").one_of(MATCH_POLICIES);
    validate_side_effects(&webhook.at("sideEffects"), old);
    let seconds = webhook.at("timeoutSeconds");
    if !(1..=30).contains(&seconds.int()) {
        seconds.invalid("the timeout value must be between 1 and 30 seconds");
    }
    label_selector::validate(&webhook.at("namespaceSelector"));
    label_selector::validate(&webhook.at("objectSelector"));
    if webhook
        .shape()
        .is_some_and(|shape| shape.member("reinvocationPolicy").is_some())
    {
        webhook.at("reinvocationPolicy").one_of(REINVOCATIONS);
    }
    client_config::validate(&webhook.at("clientConfig"));
    conditions::validate(&webhook.at("matchConditions"));
}

fn validate_name(own: &At<'_>) {
    if !own.require() {
        return;
    }
    let complaints = name::subdomain(own.str());
    if !complaints.is_empty() {
        own.invalid(&complaints.join(","));
    } else if own.str().split('.').count() < 3 {
        own.invalid("should be a domain with at least three segments separated by dots");
    }
}

fn validate_side_effects(effects: &At<'_>, old: &At<'_>) {
    let harmless = |webhook: At<'_>| SIDE_EFFECTS[..2].contains(&webhook.at("sideEffects").str());
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

fn validate_versions(versions: &At<'_>, old: &At<'_>) {
    if versions.is_empty() {
        versions.required(&format!("must specify one of {}", VERSIONS.join(", ")));
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for version in versions.items() {
        if seen.contains(&version.str()) {
            version.invalid("duplicate version");
            continue;
        }
        seen.push(version.str());
        name::check(&version, name::service);
    }
    let known =
        |versions: &At<'_>| versions.is_empty() || versions.strs().any(|version| VERSIONS.contains(&version));
    let knew = old
        .items()
        .all(|webhook| known(&webhook.at("admissionReviewVersions")));
    if knew && !known(versions) {
        versions.invalid(&format!("must include at least one of {}", VERSIONS.join(", ")));
    }
}
