//! [`ExtenderConfig`]: an extender in a KubeSchedulerConfiguration.

use std::time::Duration;

use compact_str::CompactString;
use serde::Deserialize;
use setpoint_api::field::Errors;
use setpoint_api::go_duration;

/// Upstream: `DefaultExtenderTimeout`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// How an extender is reached, and what it does (upstream: `Extender`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExtenderConfig {
    #[serde(rename = "urlPrefix")]
    pub url_prefix: String,
    pub filter_verb: String,
    pub preempt_verb: String,
    pub prioritize_verb: String,
    pub bind_verb: String,
    /// The weight of its scores.
    pub weight: i64,
    #[serde(rename = "enableHTTPS")]
    pub enable_https: bool,
    pub tls_config: Option<ExtenderTlsConfig>,
    #[serde(rename = "httpTimeout")]
    pub http_timeout: String,
    /// Whether it knows the nodes and needs only their names.
    pub node_cache_capable: bool,
    /// The resources that it manages: it gets only pods that request one of them. Without any, it gets all.
    pub managed_resources: Vec<ManagedResource>,
    /// Whether pods are scheduled without it when it fails.
    pub ignorable: bool,
}

/// A resource that an extender manages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ManagedResource {
    pub name: CompactString,
    /// Whether the plugins do not check it.
    pub ignored_by_scheduler: bool,
}

/// The TLS settings of an extender. The data is base64 of PEM and takes precedence over the files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExtenderTlsConfig {
    pub insecure: bool,
    pub server_name: String,
    pub cert_file: String,
    pub key_file: String,
    #[serde(rename = "caFile")]
    pub ca_file: String,
    pub cert_data: String,
    pub key_data: String,
    #[serde(rename = "caData")]
    pub ca_data: String,
}

impl ExtenderConfig {
    /// How long a request may take; zero and absent mean the default.
    pub(super) fn timeout(&self) -> Duration {
        let parsed = go_duration::parse(&self.http_timeout).unwrap_or_default();
        if parsed.is_zero() { DEFAULT_TIMEOUT } else { parsed }
    }
}

/// Collects the invalid values, as upstream's `validateExtenders`.
pub(crate) fn check(extenders: &[ExtenderConfig], errors: &Errors) {
    let mut names = std::collections::BTreeSet::new();
    for (index, extender) in extenders.iter().enumerate() {
        let path = errors.at("extenders").index(index);
        if !extender.prioritize_verb.is_empty() && extender.weight <= 0 {
            path.at("weight")
                .invalid(extender.weight, "must have a positive weight applied to it");
        }
        for (index, resource) in extender.managed_resources.iter().enumerate() {
            let path = path.at("managedResources").index(index).at("name");
            let name = resource.name.as_str();
            if !name.contains('/') || name.contains("kubernetes.io/") {
                path.invalid(name, "is an invalid extended resource name");
            }
            if !names.insert(name) {
                path.invalid(name, "duplicate extender managed resource name");
            }
        }
    }
    let binders = extenders.iter().filter(|one| !one.bind_verb.is_empty()).count();
    if binders > 1 {
        let value = format!("found {binders} extenders implementing bind");
        errors
            .at("extenders")
            .invalid(value.as_str(), "only one extender can implement bind");
    }
}
