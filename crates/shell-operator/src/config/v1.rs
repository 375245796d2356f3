//! Version v1 of the configuration of a hook.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use setpoint_api::{Clock, go_duration};

use super::selector::{RawFields, RawLabels, RawNames, RawNamespaces};
use super::webhook::{RawAdmission, RawConversion};
use super::{
    BindingOptions, ConfigVersion, HookConfig, KubernetesBinding, MAIN_QUEUE, ObjectSelector,
    ScheduleBinding, Settings, WatchEvent, compile_filter, parse_crontab,
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawConfig {
    #[serde(rename = "configVersion")]
    _config_version: String,
    on_startup: Option<i64>,
    schedule: Option<Vec<RawSchedule>>,
    kubernetes: Option<Vec<RawKubernetes>>,
    kubernetes_validating: Option<Vec<RawAdmission>>,
    kubernetes_mutating: Option<Vec<RawAdmission>>,
    kubernetes_custom_resource_conversion: Option<Vec<RawConversion>>,
    settings: Option<RawSettings>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawSchedule {
    name: Option<String>,
    crontab: String,
    #[serde(default)]
    allow_failure: bool,
    include_snapshots_from: Option<Vec<String>>,
    queue: Option<String>,
    group: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawKubernetes {
    name: Option<String>,
    watch_event: Option<Vec<WatchEvent>>,
    execute_hook_on_event: Option<Vec<WatchEvent>>,
    execute_hook_on_synchronization: Option<bool>,
    wait_for_synchronization: Option<bool>,
    keep_full_objects_in_memory: Option<bool>,
    api_version: Option<String>,
    kind: String,
    name_selector: Option<RawNames>,
    label_selector: Option<RawLabels>,
    field_selector: Option<RawFields>,
    namespace: Option<RawNamespaces>,
    jq_filter: Option<String>,
    #[serde(default)]
    allow_failure: bool,
    resynchronization_period: Option<String>,
    include_snapshots_from: Option<Vec<String>>,
    queue: Option<String>,
    group: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawSettings {
    execution_min_interval: Option<String>,
    execution_burst: Option<u32>,
}

/// Checks and converts a configuration. The error lists every invalid binding.
pub(super) fn convert(raw: RawConfig, clock: &Arc<dyn Clock>) -> Result<HookConfig, String> {
    let mut errors = Vec::new();
    let settings = raw
        .settings
        .map(RawSettings::convert)
        .transpose()
        .unwrap_or_else(|error| {
            errors.push(error);
            None
        });
    let kubernetes = convert_all(
        raw.kubernetes,
        "kubernetes",
        |binding| binding.convert(clock),
        &mut errors,
    );
    let mut admission = |raw, field| convert_all(raw, field, RawAdmission::convert, &mut errors);
    let validating = admission(raw.kubernetes_validating, "kubernetesValidating");
    let mutating = admission(raw.kubernetes_mutating, "kubernetesMutating");
    let mut config = HookConfig {
        version: ConfigVersion::V1,
        on_startup: raw.on_startup,
        schedules: convert_all(raw.schedule, "schedule", RawSchedule::convert, &mut errors),
        kubernetes,
        validating,
        mutating,
        conversions: convert_all(
            raw.kubernetes_custom_resource_conversion,
            "kubernetesCustomResourceConversion",
            RawConversion::convert,
            &mut errors,
        ),
        settings,
    };
    if errors.is_empty() {
        errors.extend(check_snapshots(&config));
        errors.extend(check_webhook_names(&config));
    }
    if !errors.is_empty() {
        return Err(errors.join("; "));
    }
    if config.describe().is_empty() {
        return Err("the configuration should have at least 1 binding".to_owned());
    }
    include_group_snapshots(&mut config);
    Ok(config)
}

fn convert_all<R, T>(
    raw: Option<Vec<R>>,
    field: &str,
    convert: impl Fn(R) -> Result<T, String>,
    errors: &mut Vec<String>,
) -> Vec<T> {
    if raw.as_ref().is_some_and(Vec::is_empty) {
        errors.push(format!("{field} should have at least 1 item"));
    }
    let mut bindings = Vec::new();
    for (at, raw) in raw.into_iter().flatten().enumerate() {
        match convert(raw) {
            Ok(binding) => bindings.push(binding),
            Err(error) => errors.push(format!("invalid {field} config [{at}]: {error}")),
        }
    }
    bindings
}

impl RawSchedule {
    fn convert(self) -> Result<ScheduleBinding, String> {
        let options = BindingOptions {
            name: non_empty(self.name).unwrap_or_else(|| "schedule".to_owned()),
            allow_failure: self.allow_failure,
            queue: non_empty(self.queue).unwrap_or_else(|| MAIN_QUEUE.to_owned()),
            group: non_empty(self.group),
            include_snapshots_from: self.include_snapshots_from.unwrap_or_default(),
        };
        Ok(ScheduleBinding {
            options,
            schedule: parse_crontab(&self.crontab)?,
            crontab: self.crontab,
        })
    }
}

impl RawKubernetes {
    fn convert(self, clock: &Arc<dyn Clock>) -> Result<KubernetesBinding, String> {
        let names = self.name_selector.map(|names| names.match_names);
        let names = names.unwrap_or_default();
        let fields = self
            .field_selector
            .map(|fields| fields.convert(!names.is_empty()));
        let api_version = self.api_version.unwrap_or_default();
        if api_version.matches('/').count() > 1 {
            return Err("apiVersion is invalid".to_owned());
        }
        let selector = ObjectSelector {
            api_version,
            kind: self.kind,
            names,
            labels: self
                .label_selector
                .map(RawLabels::convert)
                .transpose()?
                .unwrap_or_default(),
            fields: fields.transpose()?.unwrap_or_default(),
            namespaces: self.namespace.map(RawNamespaces::convert).transpose()?,
        };
        let period = self.resynchronization_period.map(|text| {
            let period = go_duration::parse(&text);
            period.map_err(|error| format!("resynchronizationPeriod is invalid: {error}"))
        });
        let events = self.execute_hook_on_event.or(self.watch_event);
        Ok(KubernetesBinding {
            selector,
            events: events.unwrap_or_else(|| WatchEvent::ALL.to_vec()),
            jq_filter: compile_filter(self.jq_filter.as_deref(), clock)?,
            execute_on_synchronization: self.execute_hook_on_synchronization.unwrap_or(true),
            wait_for_synchronization: self.wait_for_synchronization.unwrap_or(true) || self.queue.is_none(),
            keep_full_objects: self.keep_full_objects_in_memory.unwrap_or(true),
            resynchronization_period: period.transpose()?,
            options: BindingOptions {
                name: non_empty(self.name).unwrap_or_else(|| "kubernetes".to_owned()),
                allow_failure: self.allow_failure,
                queue: non_empty(self.queue).unwrap_or_else(|| MAIN_QUEUE.to_owned()),
                group: non_empty(self.group),
                include_snapshots_from: self.include_snapshots_from.unwrap_or_default(),
            },
        })
    }
}

impl RawSettings {
    fn convert(self) -> Result<Settings, String> {
        let interval = self.execution_min_interval.unwrap_or_default();
        let interval = go_duration::parse(&interval)
            .map_err(|error| format!("executionMinInterval is invalid: {error}"))?;
        Ok(Settings {
            execution_min_interval: interval,
            execution_burst: self.execution_burst.unwrap_or_default().max(1),
        })
    }
}

/// Every included snapshot must be of exactly one binding.
fn check_snapshots(config: &HookConfig) -> Vec<String> {
    let mut errors = Vec::new();
    for (field, at, options) in config.binding_options() {
        for include in &options.include_snapshots_from {
            let same = config
                .kubernetes
                .iter()
                .filter(|binding| binding.options.name == *include);
            let problem = match same.count() {
                0 => format!("'{include}' binding name not found"),
                1 => continue,
                count => format!("there are {count} '{include}' binding names"),
            };
            errors.push(format!(
                "invalid {field} config [{at}]: includeSnapshotsFrom is invalid: {problem}"
            ));
        }
    }
    errors
}

/// Two webhooks of one configuration need two names.
fn check_webhook_names(config: &HookConfig) -> Vec<String> {
    let mut errors = Vec::new();
    let lists = [
        ("kubernetesValidating", &config.validating),
        ("kubernetesMutating", &config.mutating),
    ];
    for (field, bindings) in lists {
        for (at, binding) in bindings.iter().enumerate() {
            let name = &binding.options.name;
            if bindings[..at].iter().any(|other| other.options.name == *name) {
                errors.push(format!(
                    "invalid {field} config [{at}]: name: Duplicate value: {name:?}"
                ));
            }
        }
    }
    errors
}

/// A binding of a group includes the snapshots of all kubernetes bindings of the group.
fn include_group_snapshots(config: &mut HookConfig) {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for binding in &config.kubernetes {
        if let Some(group) = &binding.options.group {
            let names = groups.entry(group.clone()).or_default();
            names.push(binding.options.name.clone());
        }
    }
    for options in config.binding_options_mut() {
        let names = options.group.as_ref().and_then(|group| groups.get(group));
        for name in names.into_iter().flatten() {
            if !options.include_snapshots_from.contains(name) {
                options.include_snapshots_from.push(name.clone());
            }
        }
    }
}

fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}
