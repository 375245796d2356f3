//! Version v0 of the configuration of a hook: the legacy form, without `configVersion`.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use setpoint_api::Clock;
use setpoint_client::label_selector;

use super::{
    BindingOptions, ConfigVersion, HookConfig, KubernetesBinding, MAIN_QUEUE, NamespaceSelector,
    ObjectSelector, ScheduleBinding, WatchEvent, compile_filter, parse_crontab,
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawConfig {
    on_startup: Option<i64>,
    #[serde(default)]
    schedule: Vec<RawSchedule>,
    #[serde(default)]
    on_kubernetes_event: Vec<RawKubernetes>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawSchedule {
    name: Option<String>,
    crontab: String,
    #[serde(default)]
    allow_failure: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawKubernetes {
    name: Option<String>,
    event: Option<Vec<RawEvent>>,
    kind: String,
    selector: Option<LabelSelector>,
    object_name: Option<String>,
    namespace_selector: Option<RawNamespaces>,
    jq_filter: Option<String>,
    #[serde(default)]
    allow_failure: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawEvent {
    Add,
    Update,
    Delete,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawNamespaces {
    #[serde(default)]
    match_names: Vec<String>,
    #[serde(default)]
    any: bool,
}

/// Checks and converts a configuration.
pub(super) fn convert(raw: RawConfig, clock: &Arc<dyn Clock>) -> Result<HookConfig, String> {
    let mut config = HookConfig {
        version: ConfigVersion::V0,
        on_startup: raw.on_startup,
        schedules: Vec::new(),
        kubernetes: Vec::new(),
        validating: Vec::new(),
        mutating: Vec::new(),
        conversions: Vec::new(),
        settings: None,
    };
    for (at, schedule) in raw.schedule.into_iter().enumerate() {
        let parsed = parse_crontab(&schedule.crontab);
        config.schedules.push(ScheduleBinding {
            schedule: parsed.map_err(|error| format!("invalid schedule config [{at}]: {error}"))?,
            options: options(schedule.name, "schedule", schedule.allow_failure),
            crontab: schedule.crontab,
        });
    }
    for (at, binding) in raw.on_kubernetes_event.into_iter().enumerate() {
        let binding = binding.convert(clock);
        let binding = binding.map_err(|error| format!("invalid onKubernetesEvent config [{at}]: {error}"))?;
        config.kubernetes.push(binding);
    }
    match config.describe().is_empty() {
        true => Err("the configuration should have at least 1 binding".to_owned()),
        false => Ok(config),
    }
}

impl RawKubernetes {
    fn convert(self, clock: &Arc<dyn Clock>) -> Result<KubernetesBinding, String> {
        let labels = self.selector.as_ref().map(label_selector).transpose();
        let labels = labels.map_err(|error| format!("selector is invalid: {error}"))?;
        let namespaces = self.namespace_selector.filter(|namespaces| !namespaces.any);
        let selector = ObjectSelector {
            kind: self.kind,
            names: self.object_name.into_iter().collect(),
            labels: labels.unwrap_or_default(),
            namespaces: namespaces.map(|namespaces| NamespaceSelector {
                names: namespaces.match_names,
                labels: None,
            }),
            ..ObjectSelector::default()
        };
        let events = self
            .event
            .map(|events| events.iter().map(RawEvent::convert).collect());
        Ok(KubernetesBinding {
            options: options(self.name, "onKubernetesEvent", self.allow_failure),
            selector,
            events: events.unwrap_or_else(|| WatchEvent::ALL.to_vec()),
            jq_filter: compile_filter(self.jq_filter.as_deref(), clock)?,
            execute_on_synchronization: false,
            wait_for_synchronization: true,
            keep_full_objects: true,
            resynchronization_period: None,
        })
    }
}

impl RawEvent {
    fn convert(&self) -> WatchEvent {
        match self {
            Self::Add => WatchEvent::Added,
            Self::Update => WatchEvent::Modified,
            Self::Delete => WatchEvent::Deleted,
        }
    }
}

fn options(name: Option<String>, default: &str, allow_failure: bool) -> BindingOptions {
    let name = name.filter(|name| !name.is_empty());
    BindingOptions {
        name: name.unwrap_or_else(|| default.to_owned()),
        allow_failure,
        queue: MAIN_QUEUE.to_owned(),
        group: None,
        include_snapshots_from: Vec::new(),
    }
}
