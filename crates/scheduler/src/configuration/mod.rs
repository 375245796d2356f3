//! KubeSchedulerConfiguration (`kubescheduler.config.k8s.io/v1`): profiles, plugins and their arguments from a file.
//!
//! Decoding is strict: a field that does not exist is an error, as in kube-scheduler. Fields of other components of
//! kube-scheduler (leader election, client connection, profiling) are accepted and have no effect.
//!
//! Start reading at [`parse`], then [`plugin_sets`] for which plugin runs where.

mod plugin_sets;
mod profile;
mod raw;
mod strict;

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use setpoint_api::field::Errors;

pub use profile::ProfileConfig;

use self::raw::RawConfiguration;
use crate::extender;
use crate::plugins::{PluginArgs, check_args};
use crate::queue::BackoffConfig;
use crate::scheduler::{Config, DEFAULT_NAME};

/// Versions and kinds that are accepted.
const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
const KIND: &str = "KubeSchedulerConfiguration";

/// Why a configuration is rejected, in kube-scheduler's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(pub String);

/// Decodes and checks a configuration.
pub fn parse(object: &Value) -> Result<Config, ConfigError> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if version != API_VERSION || kind != KIND {
        let message = format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/scheduler/apis/config/scheme/scheme.go:30\""
        );
        return Err(ConfigError(message));
    }
    strict::check(object)?;
    let raw: RawConfiguration =
        serde_json::from_value(object.clone()).map_err(|error| ConfigError(error.to_string()))?;
    check_values(&raw)?;
    let default = Config::default();
    let seconds = |value: Option<i64>, default: Duration| {
        let seconds = value.and_then(|value| u64::try_from(value).ok());
        seconds.map_or(default, Duration::from_secs)
    };
    Ok(Config {
        parallelism: raw
            .parallelism
            .and_then(|n| usize::try_from(n).ok())
            .or(default.parallelism),
        backoff: BackoffConfig {
            initial: seconds(raw.pod_initial_backoff_seconds, default.backoff.initial),
            max: seconds(raw.pod_max_backoff_seconds, default.backoff.max),
        },
        extender_configs: raw.extenders.clone(),
        extenders: Vec::new(),
        profiles: profile::resolve(raw)?,
        explainer: default.explainer,
    })
}

/// Collects all invalid values, as upstream's `ValidateKubeSchedulerConfiguration`.
fn check_values(raw: &RawConfiguration) -> Result<(), ConfigError> {
    let errors = Errors::default();
    if let Some(parallelism) = raw.parallelism.filter(|value| *value <= 0) {
        let detail = "should be an integer value greater than zero";
        errors.at("parallelism").invalid(parallelism, detail);
    }
    for (index, profile) in raw.profiles.iter().enumerate() {
        let path = errors.at("profiles").index(index);
        let name = profile.scheduler_name.as_deref();
        if name.is_none_or(str::is_empty) && (raw.profiles.len() > 1 || name.is_some()) {
            path.at("schedulerName").required("");
        }
        let mut earlier = raw.profiles[..index].iter();
        if let Some(first) =
            earlier.position(|other| name.is_some() && other.scheduler_name.as_deref() == name)
        {
            path.at("schedulerName")
                .duplicate(format!("profiles[{first}].schedulerName"));
        }
        check_percentage(&path, profile.percentage_of_nodes_to_score);
        let mut names = std::collections::BTreeSet::new();
        for (index, config) in profile.plugin_config.iter().enumerate() {
            let path = path.at("pluginConfig").index(index);
            if !names.insert(&config.name) {
                path.duplicate(config.name.as_str());
            }
            check_args(&config.name, &PluginArgs(config.args.clone()), &path.at("args"));
        }
    }
    check_percentage(&errors, raw.percentage_of_nodes_to_score);
    check_backoff(&errors, raw);
    extender::check(&raw.extenders, &errors);
    let errors: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
    match &errors[..] {
        [] => Ok(()),
        [only] => Err(ConfigError(only.clone())),
        several => Err(ConfigError(format!("[{}]", several.join(", ")))),
    }
}

fn check_percentage(path: &Errors, percentage: Option<i64>) {
    if let Some(value) = percentage.filter(|value| !(0..=100).contains(value)) {
        path.at("percentageOfNodesToScore")
            .invalid(value, "not in valid range [0-100]");
    }
}

fn check_backoff(errors: &Errors, raw: &RawConfiguration) {
    let initial = raw.pod_initial_backoff_seconds.unwrap_or(1);
    let max = raw.pod_max_backoff_seconds.unwrap_or(10);
    if initial <= 0 {
        errors
            .at("podInitialBackoffSeconds")
            .invalid(initial, "must be greater than 0");
    }
    if max < initial {
        let detail = "must be greater than or equal to PodInitialBackoffSeconds";
        errors.at("podMaxBackoffSeconds").invalid(max, detail);
    }
}

/// The scheduler name of a profile that has none: there is only one such profile.
fn default_name() -> String {
    DEFAULT_NAME.to_owned()
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests;
