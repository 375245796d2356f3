//! [`Configuration`]: a webhook configuration, parsed.

use std::collections::HashMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use setpoint_registry_api::{WebhookAddress, WebhookEndpoint};

use crate::expressions::{MatchCondition, MatchConditions};
use crate::matching::MatchCriteria;

const DEFAULT_TIMEOUT_SECONDS: u64 = 10;
const DEFAULT_PORT: u16 = 443;

/// The webhooks of a MutatingWebhookConfiguration or a ValidatingWebhookConfiguration.
#[derive(Debug, Deserialize)]
#[serde(from = "ConfigurationFields")]
pub(super) struct Configuration {
    pub(super) name: String,
    pub(super) webhooks: Vec<Webhook>,
}

/// One webhook.
#[derive(Debug)]
pub(super) struct Webhook {
    pub(super) name: String,
    /// Unique among all webhooks: the names of the configuration and of the webhook, and a number.
    pub(super) uid: String,
    pub(super) endpoint: WebhookEndpoint,
    pub(super) criteria: MatchCriteria,
    pub(super) failure_policy: FailurePolicy,
    pub(super) timeout: Duration,
    /// Whether it may be called in a dry run; `None` if its configuration does not specify it.
    pub(super) allows_dry_run: Option<bool>,
    pub(super) review_version: Option<ReviewVersion>,
    pub(super) conditions: MatchConditions,
    /// Whether it is called again after a later change of the object.
    pub(super) is_reinvocable: bool,
}

/// What happens if a webhook cannot be called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(super) enum FailurePolicy {
    #[default]
    Fail,
    Ignore,
}

/// The version of the AdmissionReviews that a webhook gets: the first of its versions that this server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1beta1,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ConfigurationFields {
    metadata: Metadata,
    webhooks: Option<Vec<WebhookFields>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WebhookFields {
    name: String,
    client_config: ClientConfig,
    #[serde(flatten)]
    criteria: MatchCriteria,
    failure_policy: FailurePolicy,
    timeout_seconds: Option<u64>,
    side_effects: Option<String>,
    admission_review_versions: Vec<String>,
    reinvocation_policy: String,
    match_conditions: Option<Vec<MatchCondition>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClientConfig {
    url: Option<String>,
    service: Option<Service>,
    ca_bundle: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Service {
    namespace: String,
    name: String,
    path: String,
    port: Option<u16>,
}

impl From<ConfigurationFields> for Configuration {
    fn from(fields: ConfigurationFields) -> Self {
        let name = fields.metadata.name;
        let mut names: HashMap<String, usize> = HashMap::new();
        let webhooks = fields.webhooks.unwrap_or_default().into_iter().map(|webhook| {
            let number = names.entry(webhook.name.clone()).or_default();
            let uid = format!("{name}/{}/{number}", webhook.name);
            *number += 1;
            webhook.parse(uid)
        });
        // A webhook without rules is never called, and neither are criteria without rules meant here.
        let webhooks = webhooks.filter(|webhook| !webhook.criteria.rules.is_empty());
        let webhooks = webhooks.collect();
        Self { name, webhooks }
    }
}

impl WebhookFields {
    fn parse(self, uid: String) -> Webhook {
        let seconds = self.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS);
        let versions = self.admission_review_versions.iter();
        Webhook {
            name: self.name,
            uid,
            endpoint: self.client_config.endpoint(),
            criteria: self.criteria,
            failure_policy: self.failure_policy,
            timeout: Duration::from_secs(seconds),
            allows_dry_run: self
                .side_effects
                .map(|effects| matches!(effects.as_str(), "None" | "NoneOnDryRun")),
            review_version: versions
                .filter_map(|version| ReviewVersion::parse(version))
                .next(),
            conditions: MatchConditions::of_webhook(&self.match_conditions.unwrap_or_default()),
            is_reinvocable: self.reinvocation_policy == "IfNeeded",
        }
    }
}

impl ReviewVersion {
    fn parse(version: &str) -> Option<Self> {
        match version {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1beta1),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1beta1 => "v1beta1",
        }
    }
}

impl ClientConfig {
    fn endpoint(self) -> WebhookEndpoint {
        let address = match self.service {
            Some(service) => WebhookAddress::Service {
                namespace: service.namespace,
                name: service.name,
                path: service.path,
                port: service.port.unwrap_or(DEFAULT_PORT),
            },
            None => WebhookAddress::Url(self.url.unwrap_or_default()),
        };
        WebhookEndpoint {
            address,
            ca_bundle: Bytes::from(STANDARD.decode(self.ca_bundle).unwrap_or_default()),
        }
    }
}
