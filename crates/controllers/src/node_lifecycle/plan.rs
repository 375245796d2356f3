//! Which taints the conditions of a node require, and its conditions once it is silent. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeCondition, Taint};
use serde::Deserialize;

use crate::api_time;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// The conditions that a kubelet reports.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
/// The conditions that keep new pods away, with their taints.
const CONDITION_TAINTS: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// The deprecated labels that follow a stable one.
const BETA_LABELS: [(&str, &str); 2] = [
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];

/// Whether a node that is not ready gets the taint that evicts its pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eviction {
    Allowed,
    /// Not yet, since the rate of its zone is used up. A node that has the taint keeps it.
    RateLimited,
    /// Not at all, since no node is ready.
    Stopped,
}

/// The fields of a node that decide.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct NodeView {
    pub(crate) metadata: NodeMeta,
    pub(crate) spec: NodeSpec,
    pub(crate) status: NodeStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NodeMeta {
    pub(crate) creation_timestamp: Option<Timestamp>,
    pub(crate) labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct NodeSpec {
    pub(crate) taints: Vec<Taint>,
    pub(crate) unschedulable: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct NodeStatus {
    pub(crate) conditions: Vec<NodeCondition>,
}

impl NodeView {
    /// The status of a condition; `None` if the node has never reported it.
    pub(crate) fn status_of(&self, type_: &str) -> Option<&str> {
        let condition = self.status.conditions.iter().find(|own| own.type_ == type_)?;
        Some(&condition.status)
    }

    /// When the node last reported its status.
    pub(crate) fn heartbeat(&self) -> Option<Timestamp> {
        let ready = self.status.conditions.iter().find(|own| own.type_ == "Ready")?;
        ready.last_heartbeat_time.as_ref().map(|time| time.0)
    }
}

/// The conditions of a node whose grace period is over; `None` if they are Unknown already.
pub(crate) fn unknown_conditions(now: Timestamp, node: &NodeView) -> Option<Vec<NodeCondition>> {
    let mut conditions = node.status.conditions.clone();
    for type_ in REPORTED {
        match conditions.iter_mut().find(|own| own.type_ == type_) {
            Some(own) if own.status == "Unknown" => {}
            Some(own) => {
                "Unknown".clone_into(&mut own.status);
                own.reason = Some("NodeStatusUnknown".to_owned());
                own.message = Some("Kubelet stopped posting node status.".to_owned());
                own.last_transition_time = Some(api_time::from_timestamp(now));
            }
            None => conditions.push(NodeCondition {
                type_: type_.to_owned(),
                status: "Unknown".to_owned(),
                reason: Some("NodeStatusNeverUpdated".to_owned()),
                message: Some("Kubelet never posted node status.".to_owned()),
                last_heartbeat_time: node.metadata.creation_timestamp.map(api_time::from_timestamp),
                last_transition_time: Some(api_time::from_timestamp(now)),
            }),
        }
    }
    (conditions != node.status.conditions).then_some(conditions)
}

/// Whether the node is not ready and has no taint yet that evicts its pods.
pub(crate) fn needs_eviction(node: &NodeView) -> bool {
    matches!(node.status_of("Ready"), Some("False" | "Unknown")) && !node.spec.taints.iter().any(is_evicting)
}

/// The deprecated labels that are missing or differ from the stable ones.
pub(crate) fn beta_labels(node: &NodeView) -> BTreeMap<&'static str, &str> {
    let labels = &node.metadata.labels;
    let outdated = BETA_LABELS.iter().filter_map(|(stable, beta)| {
        let value = labels.get(*stable)?;
        (labels.get(*beta) != Some(value)).then_some((*beta, value.as_str()))
    });
    outdated.collect()
}

/// The taints that the node should have: those not managed here, and those that its conditions require.
pub(crate) fn taints(now: Timestamp, node: &NodeView, eviction: Eviction) -> Vec<Taint> {
    let desired_taints = desired_taints(node, eviction);
    let mut taints: Vec<Taint> = Vec::new();
    for taint in &node.spec.taints {
        // The taints of a node that has never reported stay as they are.
        let is_unknown = node.status_of("Ready").is_none() && is_evicting(taint);
        let is_managed = is_managed(taint) && !is_unknown;
        let is_desired = desired_taints
            .iter()
            .any(|(key, effect)| taint.key == *key && taint.effect == *effect);
        if !is_managed || is_desired {
            taints.push(taint.clone());
        }
    }
    for (key, effect) in desired_taints {
        if !taints.iter().any(|own| own.key == key && own.effect == effect) {
            taints.push(Taint {
                key: key.to_owned(),
                effect: effect.to_owned(),
                time_added: Some(api_time::from_timestamp(now)),
                value: None,
            });
        }
    }
    taints
}

fn is_evicting(taint: &Taint) -> bool {
    taint.effect == "NoExecute" && [NOT_READY, UNREACHABLE].contains(&taint.key.as_str())
}

fn is_managed(taint: &Taint) -> bool {
    let of_conditions = || CONDITION_TAINTS.iter().any(|(_, key)| taint.key == *key);
    let keys = [NOT_READY, UNREACHABLE, UNSCHEDULABLE];
    is_evicting(taint)
        || (taint.effect == "NoSchedule" && (keys.contains(&taint.key.as_str()) || of_conditions()))
}

fn desired_taints(node: &NodeView, eviction: Eviction) -> Vec<(&'static str, &'static str)> {
    let mut desired_taints = Vec::new();
    let ready_taint = match node.status_of("Ready") {
        Some("False") => Some(NOT_READY),
        Some("Unknown") => Some(UNREACHABLE),
        _ => None,
    };
    if let Some(key) = ready_taint {
        desired_taints.push((key, "NoSchedule"));
        // A node that is evicted already gets the other taint at once.
        let is_evicted = match eviction {
            Eviction::Allowed => true,
            Eviction::RateLimited => !needs_eviction(node),
            Eviction::Stopped => false,
        };
        desired_taints.extend(is_evicted.then_some((key, "NoExecute")));
    }
    let condition_taints = CONDITION_TAINTS
        .iter()
        .filter(|(type_, _)| node.status_of(type_) == Some("True"));
    desired_taints.extend(condition_taints.map(|(_, key)| (*key, "NoSchedule")));
    if node.spec.unschedulable {
        desired_taints.push((UNSCHEDULABLE, "NoSchedule"));
    }
    desired_taints
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(conditions: &[(&str, &str)], taints: &Value, unschedulable: bool) -> NodeView {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(type_, status)| json!({"type": type_, "status": status}))
            .collect();
        let body = json!({"spec": {"taints": taints, "unschedulable": unschedulable}, "status": {"conditions": conditions}});
        serde_json::from_value(body).unwrap()
    }

    #[track_caller]
    fn check(node: &NodeView, expected: &[&str]) {
        check_eviction(node, Eviction::Allowed, expected);
    }

    #[track_caller]
    fn check_eviction(node: &NodeView, eviction: Eviction, expected: &[&str]) {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let shown = |taint: Taint| {
            format!(
                "{}:{}",
                taint.key.trim_start_matches("node.kubernetes.io/"),
                taint.effect
            )
        };
        let taints: Vec<String> = taints(now, node, eviction).into_iter().map(shown).collect();
        assert_eq!(taints, expected);
    }

    #[test]
    fn conditions_become_taints_and_are_removed_with_them() {
        let none = json!([]);
        check(&node(&[("Ready", "True")], &none, false), &[]);
        check(
            &node(&[("Ready", "False")], &none, false),
            &["not-ready:NoSchedule", "not-ready:NoExecute"],
        );
        check(
            &node(&[("Ready", "Unknown")], &none, false),
            &["unreachable:NoSchedule", "unreachable:NoExecute"],
        );
        check(
            &node(&[("Ready", "True"), ("DiskPressure", "True")], &none, true),
            &["disk-pressure:NoSchedule", "unschedulable:NoSchedule"],
        );
        let old = json!([
            {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
            {"key": "mine", "effect": "NoSchedule"},
        ]);
        check(&node(&[("Ready", "True")], &old, false), &["mine:NoSchedule"]);
    }

    #[test]
    fn evictions_are_held_back_or_stopped() {
        let silent = node(&[("Ready", "Unknown")], &json!([]), false);
        check_eviction(&silent, Eviction::RateLimited, &["unreachable:NoSchedule"]);
        check_eviction(&silent, Eviction::Stopped, &["unreachable:NoSchedule"]);
        let evicted = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]);
        let evicted = node(&[("Ready", "Unknown")], &evicted, false);
        let both = ["unreachable:NoSchedule", "unreachable:NoExecute"];
        check_eviction(&evicted, Eviction::RateLimited, &both);
        check_eviction(&evicted, Eviction::Stopped, &["unreachable:NoSchedule"]);
    }

    #[test]
    fn deprecated_labels_follow_the_stable_ones() {
        let mut node = node(&[], &json!([]), false);
        assert!(beta_labels(&node).is_empty());
        let labels = &mut node.metadata.labels;
        labels.insert("kubernetes.io/os".to_owned(), "linux".to_owned());
        labels.insert("kubernetes.io/arch".to_owned(), "arm64".to_owned());
        labels.insert("beta.kubernetes.io/arch".to_owned(), "arm64".to_owned());
        let expected = BTreeMap::from([("beta.kubernetes.io/os", "linux")]);
        assert_eq!(beta_labels(&node), expected);
    }

    #[test]
    fn the_conditions_of_a_silent_node_are_unknown() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let silent = unknown_conditions(now, &node(&[("Ready", "True")], &json!([]), false)).unwrap();
        let statuses: Vec<_> = silent
            .iter()
            .map(|own| (own.type_.as_str(), own.status.as_str()))
            .collect();
        assert_eq!(statuses, REPORTED.map(|type_| (type_, "Unknown")));
        assert_eq!(silent[0].reason.as_deref(), Some("NodeStatusUnknown"));
        assert_eq!(silent[1].reason.as_deref(), Some("NodeStatusNeverUpdated"));
        let mut again = node(&[], &json!([]), false);
        again.status.conditions = silent;
        assert_eq!(unknown_conditions(now, &again), None);
    }
}
