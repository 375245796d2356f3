//! [`PodRule`]: how the simulated pods that match a selector behave: pure.
//!
//! A rule has the same settings as the annotations of a pod ([`super::rules`]), which have precedence. The first rule that
//! matches a pod applies to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de};
use setpoint_container_runtime::SandboxConfig;

use super::rules::{self, duration, fraction};
use super::usage::quantity;

/// How the pods that match a selector behave.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct PodRule {
    /// Which pods.
    pub selector: PodSelector,
    /// How many of those pods, in per cent: which ones differs from pod to pod and not in time. All by default.
    #[serde(deserialize_with = "percentage")]
    pub percentage: Option<u8>,
    /// How long the pod takes to start, besides the time of all pods.
    #[serde(deserialize_with = "duration_text")]
    pub starts_after: Option<String>,
    /// After how long its containers exit; without it they run for ever. With a restart policy of `Always` they are
    /// restarted with Kubernetes' back-off.
    #[serde(deserialize_with = "duration_text")]
    pub ends_after: Option<String>,
    /// After how long a running container is ready; at once by default.
    #[serde(deserialize_with = "duration_text")]
    pub ready_after: Option<String>,
    /// Up to how much longer starting, running and becoming ready take, different for each pod.
    #[serde(deserialize_with = "duration_text")]
    pub jitter: Option<String>,
    /// The exit code of its containers.
    pub exit_code: Option<i32>,
    /// The text with which its containers cannot be created.
    pub create_error: Option<String>,
    /// The text with which its containers cannot be started.
    pub start_error: Option<String>,
    /// The log of each container.
    pub log: Option<String>,
    /// The exit code of commands in its containers, other than those of users.
    pub exec_exit_code: Option<i32>,
    /// The CPU that each container uses, as the metrics API reports it.
    #[serde(deserialize_with = "quantity_text")]
    pub cpu_usage: Option<String>,
    /// The memory that each container uses.
    #[serde(deserialize_with = "quantity_text")]
    pub memory_usage: Option<String>,
}

/// Selects pods. What is not set matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct PodSelector {
    /// The namespace.
    pub namespace: Option<String>,
    /// How the name begins.
    pub name_prefix: Option<String>,
    /// Labels with their values.
    pub match_labels: BTreeMap<String, String>,
}

impl PodRule {
    fn matches(&self, config: &SandboxConfig) -> bool {
        let (selector, pod) = (&self.selector, &config.pod);
        let is_same = |(name, value): (&String, &String)| config.labels.get(name) == Some(value);
        let part = self
            .percentage
            .map_or(1.0, |percentage| f64::from(percentage) / 100.0);
        selector
            .namespace
            .as_ref()
            .is_none_or(|own| *own == pod.namespace)
            && selector
                .name_prefix
                .as_ref()
                .is_none_or(|own| pod.name.starts_with(own))
            && selector.match_labels.iter().all(is_same)
            && fraction(&format!("{}/rule", pod.uid)) <= part
    }

    /// The same settings as annotations of a pod.
    fn annotations(&self) -> impl Iterator<Item = (String, String)> {
        let number = |number: Option<i32>| number.map(|number| number.to_string());
        let settings = [
            (rules::STARTS_AFTER, self.starts_after.clone()),
            (rules::ENDS_AFTER, self.ends_after.clone()),
            (rules::READY_AFTER, self.ready_after.clone()),
            (rules::JITTER, self.jitter.clone()),
            (rules::EXIT_CODE, number(self.exit_code)),
            (rules::CREATE_ERROR, self.create_error.clone()),
            (rules::START_ERROR, self.start_error.clone()),
            (rules::LOG, self.log.clone()),
            (rules::EXEC_EXIT_CODE, number(self.exec_exit_code)),
            (rules::CPU_USAGE, self.cpu_usage.clone()),
            (rules::MEMORY_USAGE, self.memory_usage.clone()),
        ];
        let set = |(name, value): (&str, Option<String>)| Some((name.to_owned(), value?));
        settings.into_iter().filter_map(set)
    }
}

/// Adds the settings of the first rule that matches a pod to its annotations, which have precedence.
pub(super) fn apply(rules: &[PodRule], config: &mut SandboxConfig) {
    if let Some(rule) = rules.iter().find(|rule| rule.matches(config)) {
        for (name, value) in rule.annotations() {
            config.annotations.entry(name).or_insert(value);
        }
    }
}

/// A duration as it is written, which must be valid.
fn duration_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    match &text {
        Some(written) if duration(written).is_none() => Err(de::Error::custom(format!(
            "{written:?} is not a duration such as 5s"
        ))),
        _ => Ok(text),
    }
}

/// A quantity as it is written, which must be positive.
fn quantity_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    match &text {
        Some(written) if quantity(written).is_none() => Err(de::Error::custom(format!(
            "{written:?} is not a positive quantity such as 250m"
        ))),
        _ => Ok(text),
    }
}

fn percentage<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u8>, D::Error> {
    let percentage = Option::<u8>::deserialize(deserializer)?;
    match percentage {
        Some(more @ 101..) => Err(de::Error::custom(format!("{more} is more than 100 per cent"))),
        percentage => Ok(percentage),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::bound_pod::BoundPod;
    use crate::pod::setup::simulated::sandbox_config;

    fn config(metadata: Value) -> SandboxConfig {
        let pod = json!({ "metadata": metadata, "spec": { "containers": [] } });
        sandbox_config(&BoundPod::new(serde_json::from_value(pod).unwrap()), 0)
    }

    /// The value of `ends-after` of a pod with this metadata under rules.
    #[track_caller]
    fn check(rules: Value, metadata: Value, expected: Option<&str>) {
        let rules: Vec<PodRule> = serde_json::from_value(rules).unwrap();
        let mut config = config(metadata);
        apply(&rules, &mut config);
        let value = config.annotations.get(rules::ENDS_AFTER).map(String::as_str);
        assert_eq!(value, expected);
    }

    #[test]
    fn the_first_rule_that_matches_applies_unless_the_pod_has_an_annotation() {
        let rules = json!([
            { "selector": { "matchLabels": { "app": "job" } }, "endsAfter": "5s" },
            { "selector": { "namespace": "batch", "namePrefix": "slow-" }, "endsAfter": "1m" },
        ]);
        let job = json!({ "name": "a", "labels": { "app": "job" } });
        check(rules.clone(), job, Some("5s"));
        check(
            rules.clone(),
            json!({ "name": "slow-1", "namespace": "batch" }),
            Some("1m"),
        );
        check(
            rules.clone(),
            json!({ "name": "slow-1", "namespace": "other" }),
            None,
        );
        let own = json!({ "labels": { "app": "job" }, "annotations": { rules::ENDS_AFTER: "9s" } });
        check(rules, own, Some("9s"));
    }

    #[test]
    fn a_rule_applies_to_a_part_of_the_pods() {
        let rules: Vec<PodRule> =
            serde_json::from_value(json!([{ "percentage": 30, "endsAfter": "1s" }])).unwrap();
        let count = (0..1000).filter(|number| {
            let mut config = config(json!({ "uid": format!("uid-{number}") }));
            apply(&rules, &mut config);
            config.annotations.contains_key(rules::ENDS_AFTER)
        });
        let count = count.count();
        assert!((200..400).contains(&count), "{count}");
    }

    #[track_caller]
    fn check_error(rule: Value, expected: &str) {
        let error = serde_json::from_value::<PodRule>(rule).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn what_is_not_a_rule_is_an_error() {
        check_error(json!({ "endAfter": "5s" }), "unknown field `endAfter`");
        check_error(
            json!({ "endsAfter": "soon" }),
            "\"soon\" is not a duration such as 5s",
        );
        check_error(
            json!({ "cpuUsage": "-1" }),
            "\"-1\" is not a positive quantity such as 250m",
        );
        check_error(json!({ "percentage": 101 }), "101 is more than 100 per cent");
    }
}
