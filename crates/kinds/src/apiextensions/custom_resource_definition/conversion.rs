//! Validation of `spec.conversion`. Errors have the paths of Kubernetes' internal type, without `webhook`.

use base64::Engine;

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, name};

use super::options::ValidationOptions;
use crate::admissionregistration::client_config;

/// The versions of ConversionReview that the API server can send.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn is_recognized(version: &str) -> bool {
    REVIEW_VERSIONS.contains(&version)
}

pub(super) fn validate(spec: &FieldRef<'_>, options: &ValidationOptions) {
    let conversion = spec.at(fields::CONVERSION);
    let strategy = conversion.at(fields::STRATEGY);
    if strategy.str() != "None" && spec.at(fields::PRESERVE_UNKNOWN_FIELDS).bool() {
        strategy.invalid("must be None if spec.preserveUnknownFields is true");
    }
    strategy.require_one_of(&["None", "Webhook"]);
    let webhook = conversion.at(fields::WEBHOOK);
    let config = webhook.at(fields::CLIENT_CONFIG);
    let config = config.with_errors(conversion.errors().at("webhookClientConfig"));
    let versions = webhook.at(fields::CONVERSION_REVIEW_VERSIONS);
    let versions = versions.with_errors(conversion.errors().at(fields::CONVERSION_REVIEW_VERSIONS));
    if strategy.str() == "Webhook" {
        validate_client_config(&config, &webhook, options);
        validate_review_versions(&versions, options);
        return;
    }
    const UNUSED: &str = "should not be set when strategy is not set to Webhook";
    if config.is_set() {
        config.forbidden(UNUSED);
    }
    if !versions.is_empty() {
        versions.forbidden(UNUSED);
    }
}

fn validate_client_config(config: &FieldRef<'_>, webhook: &FieldRef<'_>, options: &ValidationOptions) {
    if !config.is_set() {
        config.required("required when strategy is set to Webhook");
        return;
    }
    client_config::validate(config);
    let bundle = ca_bundle(webhook);
    if !bundle.is_empty() && !options.allow_invalid_ca_bundle && !is_bundle_valid(bundle) {
        config
            .at(fields::CA_BUNDLE)
            .invalid("unable to load root certificates: unable to parse bytes as PEM block");
    }
}

/// The CA bundle of the webhook, in base64.
pub(super) fn ca_bundle<'a>(webhook: &FieldRef<'a>) -> &'a str {
    webhook.at(fields::CLIENT_CONFIG).at(fields::CA_BUNDLE).str()
}

/// Whether a CA bundle has a PEM block with a certificate.
pub(super) fn is_bundle_valid(bundle: &str) -> bool {
    let decoded = base64::engine::general_purpose::STANDARD
        .decode(bundle)
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&decoded);
    text.contains("-----BEGIN CERTIFICATE-----") && text.contains("-----END CERTIFICATE-----")
}

fn validate_review_versions(versions: &FieldRef<'_>, options: &ValidationOptions) {
    if versions.is_empty() {
        return versions.required("");
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
    if options.require_recognized_review_version && !versions.strs().any(is_recognized) {
        versions.invalid(&format!(
            "must include at least one of {}",
            REVIEW_VERSIONS.join(", ")
        ));
    }
}
