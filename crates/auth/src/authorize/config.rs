//! The configuration of the authorizers: AuthorizationConfiguration of `apiserver.config.k8s.io`, which the
//! `--authorization-*` flags are converted to as well.
//!
//! The rules are those of `ValidateAuthorizationConfiguration` in Kubernetes. ABAC is rejected.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use setpoint_api::field::Errors;
use setpoint_api::{go_duration, name};

use super::match_conditions::MatchConditions;
use super::rule::nullable_list;
use super::webhook::{FailurePolicy, WebhookOptions};
use crate::config_file::{self, ConfigFileError};

const KIND: &str = "AuthorizationConfiguration";
/// The types of authorizers that Kubernetes has.
pub const MODES: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];
const MAX_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_AUTHORIZED_TTL: Duration = Duration::from_secs(300);
const DEFAULT_UNAUTHORIZED_TTL: Duration = Duration::from_secs(30);

/// An authorizer of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthorizerConfig {
    AlwaysAllow,
    AlwaysDeny,
    Node,
    Rbac,
    Webhook(WebhookConfig),
}

/// A webhook, and how it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookConfig {
    pub name: String,
    pub options: WebhookOptions,
    pub timeout: Duration,
    /// Where the webhook is, and the credentials for it.
    pub kubeconfig: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigObject {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default, deserialize_with = "nullable_list")]
    authorizers: Vec<AuthorizerObject>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AuthorizerObject {
    r#type: String,
    name: String,
    webhook: Option<WebhookObject>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct WebhookObject {
    #[serde(rename = "authorizedTTL", deserialize_with = "duration")]
    authorized_ttl: Option<Duration>,
    cache_authorized_requests: Option<bool>,
    #[serde(rename = "unauthorizedTTL", deserialize_with = "duration")]
    unauthorized_ttl: Option<Duration>,
    cache_unauthorized_requests: Option<bool>,
    #[serde(deserialize_with = "duration")]
    timeout: Option<Duration>,
    subject_access_review_version: String,
    match_condition_subject_access_review_version: String,
    failure_policy: String,
    connection_info: ConnectionObject,
    #[serde(deserialize_with = "nullable_list")]
    match_conditions: Vec<MatchCondition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct ConnectionObject {
    r#type: String,
    kube_config_file: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MatchCondition {
    expression: String,
}

/// Parses and validates a configuration file.
pub fn parse(text: &str) -> Result<Vec<AuthorizerConfig>, ConfigFileError> {
    let object: ConfigObject = config_file::parse(text, KIND)?;
    let errors = Errors::default();
    let at = errors.at("authorizers");
    if object.authorizers.is_empty() {
        at.required("at least one authorization mode must be defined");
    }
    let mut authorizers = Vec::new();
    for (index, one) in object.authorizers.iter().enumerate() {
        let others = &object.authorizers[..index];
        authorizers.extend(one.convert(others, &at.index(index)));
    }
    drop(at);
    config_file::finish(errors)?;
    Ok(authorizers)
}

/// Checks that a changed configuration has all types of the first one but webhooks, and neither Node nor RBAC if the first
/// had not, as Kubernetes requires.
pub fn check_reload(first: &[AuthorizerConfig], changed: &[AuthorizerConfig]) -> Result<(), String> {
    let local = |one: &&AuthorizerConfig| !matches!(one, AuthorizerConfig::Webhook(_));
    let missing: Vec<&str> = first
        .iter()
        .filter(local)
        .filter(|one| !changed.contains(one))
        .map(AuthorizerConfig::mode)
        .collect();
    if !missing.is_empty() {
        return Err(format!("missing required types: [{}]", missing.join(" ")));
    }
    let needs_start =
        |one: &&AuthorizerConfig| matches!(one, AuthorizerConfig::Node | AuthorizerConfig::Rbac);
    let mut added = changed.iter().filter(needs_start);
    match added.find(|one| !first.contains(one)) {
        None => Ok(()),
        Some(added) => Err(format!(
            "authorizer type {} is not allowed if it was not enabled at initial server startup",
            added.mode()
        )),
    }
}

// === impl AuthorizerConfig ===

impl AuthorizerConfig {
    /// The type of the authorizer.
    pub fn mode(&self) -> &'static str {
        match self {
            Self::AlwaysAllow => "AlwaysAllow",
            Self::AlwaysDeny => "AlwaysDeny",
            Self::Node => "Node",
            Self::Rbac => "RBAC",
            Self::Webhook(_) => "Webhook",
        }
    }

    /// The authorizer of a type that has no settings.
    pub fn from_mode(mode: &str) -> Option<Self> {
        let all = [Self::AlwaysAllow, Self::AlwaysDeny, Self::Node, Self::Rbac];
        all.into_iter().find(|one| one.mode() == mode)
    }
}

// === impl AuthorizerObject ===

impl AuthorizerObject {
    /// The authorizer, unless it is invalid; `others` are those before it.
    fn convert(&self, others: &[Self], errors: &Errors) -> Option<AuthorizerConfig> {
        let mode = self.r#type.as_str();
        let at = errors.at("type");
        match mode {
            "" => return none(|| at.required("")),
            mode if !MODES.contains(&mode) => return none(|| at.not_supported(mode, &MODES)),
            "ABAC" => return none(|| at.invalid(mode, "ABAC is not supported; use RBAC")),
            "Webhook" => {}
            mode if others.iter().any(|other| other.r#type == mode) => return none(|| at.duplicate(mode)),
            _ => {}
        }
        self.validate_name(others, &errors.at("name"));
        let Some(config) = AuthorizerConfig::from_mode(mode) else {
            return self.convert_webhook(errors);
        };
        if self.webhook.is_some() {
            let detail = "may only be specified when type=Webhook";
            errors.at("webhook").invalid("non-null", detail);
        }
        Some(config)
    }

    fn validate_name(&self, others: &[Self], errors: &Errors) {
        let (name, mode) = (self.name.as_str(), self.r#type.as_str());
        if name.is_empty() {
            return errors.required("");
        }
        if others.iter().any(|other| other.name == name) {
            return errors.duplicate(name);
        }
        for violation in name::check_dns1123_subdomain(name) {
            errors.invalid(name, &format!("authorizer name is invalid: {violation}"));
        }
        let expected = mode.to_lowercase();
        if mode != "Webhook" && name != expected {
            let detail = format!("expected name {expected} for authorizer {mode} instead of {name}");
            errors.invalid(name, &detail);
        }
    }

    fn convert_webhook(&self, errors: &Errors) -> Option<AuthorizerConfig> {
        let Some(webhook) = &self.webhook else {
            return none(|| errors.at("webhook").required("required when type=Webhook"));
        };
        let match_conditions = webhook.validate(errors);
        let cached = |ttl: Option<Duration>, default: Duration, is_cached: Option<bool>| match is_cached {
            Some(false) => Duration::ZERO,
            _ => ttl.filter(|ttl| !ttl.is_zero()).unwrap_or(default),
        };
        let options = WebhookOptions {
            version: webhook.subject_access_review_version.clone(),
            authorized_ttl: cached(
                webhook.authorized_ttl,
                DEFAULT_AUTHORIZED_TTL,
                webhook.cache_authorized_requests,
            ),
            unauthorized_ttl: cached(
                webhook.unauthorized_ttl,
                DEFAULT_UNAUTHORIZED_TTL,
                webhook.cache_unauthorized_requests,
            ),
            failure_policy: match webhook.failure_policy.as_str() {
                "Deny" => FailurePolicy::Deny,
                _ => FailurePolicy::NoOpinion,
            },
            match_conditions,
        };
        Some(AuthorizerConfig::Webhook(WebhookConfig {
            name: self.name.clone(),
            options,
            timeout: webhook.timeout.unwrap_or_default(),
            kubeconfig: webhook
                .connection_info
                .kube_config_file
                .clone()
                .unwrap_or_default(),
        }))
    }
}

/// Reports an error, and has no value.
fn none<T>(report: impl FnOnce()) -> Option<T> {
    report();
    None
}

// === impl WebhookObject ===

impl WebhookObject {
    /// Validates the webhook, and returns its match conditions.
    fn validate(&self, errors: &Errors) -> MatchConditions {
        let at = errors.at("timeout");
        match self.timeout.unwrap_or_default() {
            Duration::ZERO => at.required(""),
            timeout if timeout > MAX_TIMEOUT => {
                at.invalid(format!("{timeout:?}").as_str(), "must be > 0s and <= 30s");
            }
            _ => {}
        }
        let at = errors.at("subjectAccessReviewVersion");
        one_of(&self.subject_access_review_version, &["v1", "v1beta1"], &at);
        let at = errors.at("failurePolicy");
        one_of(&self.failure_policy, &["NoOpinion", "Deny"], &at);
        let at = errors.at("matchConditionSubjectAccessReviewVersion");
        match self.match_condition_subject_access_review_version.as_str() {
            "" if self.match_conditions.is_empty() => {}
            "" => at.required("required if match conditions are specified"),
            version => one_of(version, &["v1"], &at),
        }
        self.connection_info.validate(&errors.at("connectionInfo"));
        let conditions = self.match_conditions.iter();
        let sources: Vec<String> = conditions.map(|condition| condition.expression.clone()).collect();
        MatchConditions::compile(&sources, &errors.at("matchConditions"))
    }
}

impl ConnectionObject {
    fn validate(&self, errors: &Errors) {
        let file = self.kube_config_file.as_deref().unwrap_or(Path::new(""));
        let shown = file.display().to_string();
        let at = errors.at("kubeConfigFile");
        match self.r#type.as_str() {
            "KubeConfigFile" if shown.is_empty() => at.required(""),
            "KubeConfigFile" if !file.is_absolute() => at.invalid(shown.as_str(), "must be an absolute path"),
            "KubeConfigFile" => match std::fs::metadata(file) {
                Err(error) => at.invalid(shown.as_str(), &format!("error loading file: {error}")),
                Ok(metadata) if !metadata.is_file() => at.invalid(shown.as_str(), "must be a regular file"),
                Ok(_) => {}
            },
            "InClusterConfig" => errors
                .at("type")
                .invalid("InClusterConfig", "not supported; use KubeConfigFile"),
            other => one_of(other, &["InClusterConfig", "KubeConfigFile"], &errors.at("type")),
        }
    }
}

fn one_of(value: &str, supported: &[&str], errors: &Errors) {
    match value {
        "" => errors.required(""),
        value if !supported.contains(&value) => errors.not_supported(value, supported),
        _ => {}
    }
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| go_duration::parse(&text).map_err(serde::de::Error::custom))
        .transpose()
}

#[cfg(test)]
mod tests;
