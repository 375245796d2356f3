//! Configuration of a hook: the bindings that it prints when it is run with `--config`, in YAML or JSON.

mod selector;
mod v0;
mod v1;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use serde::de::DeserializeOwned;
use serde_json::Value;
use setpoint_api::Clock;
use setpoint_codec::{from_tree, json, yaml};
use setpoint_values::cron;

use crate::jq;

pub use selector::{NamespaceSelector, ObjectSelector};
pub use webhook::{AdmissionBinding, ConversionBinding, ConversionRule};

/// The configuration of one hook.
#[derive(Debug)]
pub struct HookConfig {
    /// The version of the configuration, which is that of the binding contexts, too.
    pub version: ConfigVersion,
    /// The order among the hooks that run at start; `None` if the hook does not.
    pub on_startup: Option<i64>,
    /// Schedules.
    pub schedules: Vec<ScheduleBinding>,
    /// Kubernetes objects to monitor.
    pub kubernetes: Vec<KubernetesBinding>,
    /// Requests to validate.
    pub validating: Vec<AdmissionBinding>,
    /// Requests whose objects the hook changes.
    pub mutating: Vec<AdmissionBinding>,
    /// Custom resources to convert.
    pub conversions: Vec<ConversionBinding>,
    /// How often the hook may run.
    pub settings: Option<Settings>,
}

/// The version of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigVersion {
    /// Without `configVersion`: the legacy form.
    V0,
    /// `configVersion: v1`.
    V1,
}

/// What every binding of schedules and objects has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingOptions {
    /// The name, which is `schedule` or `kubernetes` if the hook sets none.
    pub name: String,
    /// A failed run is not retried.
    pub allow_failure: bool,
    /// The queue of its tasks.
    pub queue: String,
    /// Bindings of one group have one context for adjacent events.
    pub group: Option<String>,
    /// The kubernetes bindings whose objects are in the binding context.
    pub include_snapshots_from: Vec<String>,
}

/// A binding to a schedule.
#[derive(Debug)]
pub struct ScheduleBinding {
    /// Name, queue and so on.
    pub options: BindingOptions,
    /// The text of the schedule.
    pub crontab: String,
    /// When it fires.
    pub schedule: cron::Schedule,
}

/// A binding to Kubernetes objects.
#[derive(Debug)]
pub struct KubernetesBinding {
    /// Name, queue and so on.
    pub options: BindingOptions,
    /// Which objects.
    pub selector: ObjectSelector,
    /// The events that run the hook.
    pub events: Vec<WatchEvent>,
    /// The program whose result must change for a run.
    pub jq_filter: Option<Arc<jq::Filter>>,
    /// Whether the hook runs with the objects that exist at start.
    pub execute_on_synchronization: bool,
    /// Whether other queues wait for that run. Accepted for named queues, as upstream does.
    pub wait_for_synchronization: bool,
    /// Whether binding contexts have the full objects.
    pub keep_full_objects: bool,
    /// How often the objects are listed again.
    pub resynchronization_period: Option<Duration>,
}

/// A change of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub enum WatchEvent {
    /// The object is new, or starts to match.
    Added,
    /// The object has changed.
    Modified,
    /// The object is deleted, or no longer matches.
    Deleted,
}

/// The rate of a hook's runs: a token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The time for one token.
    pub execution_min_interval: Duration,
    /// The size of the bucket.
    pub execution_burst: u32,
}

/// The name of the queue of bindings without a queue.
pub const MAIN_QUEUE: &str = "main";

impl HookConfig {
    /// Reads a configuration. The error lists every invalid binding.
    pub fn parse(text: &str, clock: &Arc<dyn Clock>) -> Result<Self, String> {
        let value: Value = parse_text(text)?;
        let Value::Object(fields) = &value else {
            return Err("config unmarshal: the configuration is not a map".to_owned());
        };
        match fields.get("configVersion") {
            None => v0::convert(parse_text(text)?, clock),
            Some(Value::String(version)) if version == "v1" => v1::convert(parse_text(text)?, clock),
            Some(Value::String(version)) => Err(format!(
                "config version: 'configVersion' value '{version}' is unsupported"
            )),
            Some(Value::Null) => Err("config version: missing 'configVersion' value".to_owned()),
            Some(_) => Err("config version: string value is expected for key 'configVersion'".to_owned()),
        }
    }

    /// The binding with this name.
    pub fn find_kubernetes(&self, name: &str) -> Option<usize> {
        self.kubernetes
            .iter()
            .position(|binding| binding.options.name == name)
    }

    /// The options of all bindings that have snapshots, each with the field and the index of its binding.
    fn binding_options(&self) -> impl Iterator<Item = (&'static str, usize, &BindingOptions)> {
        let kubernetes = self.kubernetes.iter().map(|binding| &binding.options);
        let schedules = self.schedules.iter().map(|binding| &binding.options);
        let validating = self.validating.iter().map(|binding| &binding.options);
        let mutating = self.mutating.iter().map(|binding| &binding.options);
        let conversions = self.conversions.iter().map(|binding| &binding.options);
        let named = |field| move |(at, options)| (field, at, options);
        (kubernetes.enumerate().map(named("kubernetes")))
            .chain(schedules.enumerate().map(named("schedule")))
            .chain(validating.enumerate().map(named("kubernetesValidating")))
            .chain(mutating.enumerate().map(named("kubernetesMutating")))
            .chain(
                conversions
                    .enumerate()
                    .map(named("kubernetesCustomResourceConversion")),
            )
    }

    fn binding_options_mut(&mut self) -> impl Iterator<Item = &mut BindingOptions> {
        let kubernetes = self.kubernetes.iter_mut().map(|binding| &mut binding.options);
        let schedules = self.schedules.iter_mut().map(|binding| &mut binding.options);
        let admission = self.validating.iter_mut().chain(&mut self.mutating);
        let admission = admission.map(|binding| &mut binding.options);
        let conversions = self.conversions.iter_mut().map(|binding| &mut binding.options);
        kubernetes.chain(schedules).chain(admission).chain(conversions)
    }

    /// The bindings in one line, for the log.
    pub fn describe(&self) -> String {
        let mut words = Vec::new();
        if let Some(order) = self.on_startup {
            words.push(format!("OnStartup:{order}"));
        }
        if !self.schedules.is_empty() {
            let crontabs = self.schedules.iter().map(|binding| binding.crontab.as_str());
            words.push(format!("Schedules: '{}'", unique(crontabs).join("', '")));
        }
        if !self.kubernetes.is_empty() {
            let kinds = self
                .kubernetes
                .iter()
                .map(|binding| binding.selector.kind.as_str());
            words.push(format!("Watch k8s kinds: '{}'", unique(kinds).join("', '")));
        }
        let admission = [("Validate", &self.validating), ("Mutate", &self.mutating)];
        for (verb, bindings) in admission.into_iter().filter(|(_, bindings)| !bindings.is_empty()) {
            let resources: Vec<String> = bindings.iter().flat_map(AdmissionBinding::resources).collect();
            let resources = unique(resources.iter().map(String::as_str)).join("', '");
            words.push(format!("{verb} k8s kinds: '{resources}'"));
        }
        if !self.conversions.is_empty() {
            let crds = self.conversions.iter().map(|binding| binding.crd_name.as_str());
            words.push(format!("Conversion for crds: '{}'", unique(crds).join("', '")));
        }
        if let Some(settings) = self.settings {
            let (interval, burst) = (settings.execution_min_interval, settings.execution_burst);
            words.push(format!("Rate: {interval:?}/{burst}"));
        }
        words.join(", ")
    }
}

impl WatchEvent {
    /// All of them: the default of a binding.
    pub const ALL: [Self; 3] = [Self::Added, Self::Modified, Self::Deleted];

    /// The name in binding contexts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "Added",
            Self::Modified => "Modified",
            Self::Deleted => "Deleted",
        }
    }
}

fn parse_text<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let tree = match text.trim_start().starts_with('{') {
        true => json::parse(text.as_bytes()).map_err(|error| format!("config unmarshal: {error}"))?,
        false => yaml::parse(text.as_bytes()).map_err(|error| format!("config unmarshal: {error}"))?,
    };
    from_tree(&tree).map_err(|error| format!("config unmarshal: {error}"))
}

fn parse_crontab(crontab: &str) -> Result<cron::Schedule, String> {
    cron::Schedule::parse_with_seconds(crontab, TimeZone::system())
        .map_err(|error| format!("crontab is invalid: {error}"))
}

fn compile_filter(text: Option<&str>, clock: &Arc<dyn Clock>) -> Result<Option<Arc<jq::Filter>>, String> {
    let text = text.filter(|text| !text.is_empty());
    text.map(|text| {
        let filter = jq::Filter::compile(text, clock.clone());
        filter.map(Arc::new).map_err(|error| format!("jqFilter: {error}"))
    })
    .transpose()
}

fn unique<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for text in texts {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all
}

#[cfg(test)]
mod tests;
