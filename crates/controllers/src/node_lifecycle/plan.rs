//! What the conditions of a node mean for pods, and when its silence means that it is gone: pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeCondition, Taint};
use serde::Deserialize;

use crate::moments;

/// How long a node may be silent before nobody knows how it is.
pub(crate) const GRACE_SECONDS: i64 = 50;
/// The same for a node that has never said anything.
pub(crate) const STARTUP_GRACE_SECONDS: i64 = 60;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// The conditions that a node reports by itself.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
/// The conditions that keep new pods away, by the taint that says so.
const KEEPING_AWAY: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// What is looked at in a node.
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
    /// The status of a condition; nothing if the node has never said.
    pub(crate) fn status_of(&self, type_: &str) -> Option<&str> {
        let condition = self.status.conditions.iter().find(|own| own.type_ == type_)?;
        Some(&condition.status)
    }

    /// When the node last told how it is.
    pub(crate) fn heartbeat(&self) -> Option<Timestamp> {
        let ready = self.status.conditions.iter().find(|own| own.type_ == "Ready")?;
        ready.last_heartbeat_time.as_ref().map(|time| time.0)
    }
}

/// The conditions of a node that has been silent for too long; nothing if they say so already.
pub(crate) fn silenced(now: Timestamp, node: &NodeView) -> Option<Vec<NodeCondition>> {
    let mut conditions = node.status.conditions.clone();
    for type_ in REPORTED {
        match conditions.iter_mut().find(|own| own.type_ == type_) {
            Some(own) if own.status == "Unknown" => {}
            Some(own) => {
                "Unknown".clone_into(&mut own.status);
                own.reason = Some("NodeStatusUnknown".to_owned());
                own.message = Some("Kubelet stopped posting node status.".to_owned());
                own.last_transition_time = Some(moments::written(now));
            }
            None => conditions.push(NodeCondition {
                type_: type_.to_owned(),
                status: "Unknown".to_owned(),
                reason: Some("NodeStatusNeverUpdated".to_owned()),
                message: Some("Kubelet never posted node status.".to_owned()),
                last_heartbeat_time: node.metadata.creation_timestamp.map(moments::written),
                last_transition_time: Some(moments::written(now)),
            }),
        }
    }
    (conditions != node.status.conditions).then_some(conditions)
}

/// The taints that the node should have: its own, and those that its conditions ask for.
pub(crate) fn taints(now: Timestamp, node: &NodeView) -> Vec<Taint> {
    let wanted = wanted(node);
    let mut taints: Vec<Taint> = Vec::new();
    for taint in &node.spec.taints {
        let is_managed = is_managed(taint);
        let is_wanted = wanted
            .iter()
            .any(|(key, effect)| taint.key == *key && taint.effect == *effect);
        if !is_managed || is_wanted {
            taints.push(taint.clone());
        }
    }
    for (key, effect) in wanted {
        if !taints.iter().any(|own| own.key == key && own.effect == effect) {
            taints.push(Taint {
                key: key.to_owned(),
                effect: effect.to_owned(),
                time_added: Some(moments::written(now)),
                value: None,
            });
        }
    }
    taints
}

fn is_managed(taint: &Taint) -> bool {
    let of_health = [NOT_READY, UNREACHABLE].contains(&taint.key.as_str());
    let keeping_away = KEEPING_AWAY.iter().any(|(_, key)| taint.key == *key) || taint.key == UNSCHEDULABLE;
    match taint.effect.as_str() {
        "NoSchedule" => of_health || keeping_away,
        "NoExecute" => of_health,
        _ => false,
    }
}

fn wanted(node: &NodeView) -> Vec<(&'static str, &'static str)> {
    let mut wanted = Vec::new();
    let health = match node.status_of("Ready") {
        Some("False") => Some(NOT_READY),
        Some("Unknown") => Some(UNREACHABLE),
        _ => None,
    };
    if let Some(key) = health {
        wanted.extend([(key, "NoSchedule"), (key, "NoExecute")]);
    }
    let held = KEEPING_AWAY
        .iter()
        .filter(|(type_, _)| node.status_of(type_) == Some("True"));
    wanted.extend(held.map(|(_, key)| (*key, "NoSchedule")));
    if node.spec.unschedulable {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    wanted
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
        let document = json!({"spec": {"taints": taints, "unschedulable": unschedulable}, "status": {"conditions": conditions}});
        serde_json::from_value(document).unwrap()
    }

    #[track_caller]
    fn check(node: &NodeView, expected: &[&str]) {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let shown = |taint: Taint| {
            format!(
                "{}:{}",
                taint.key.trim_start_matches("node.kubernetes.io/"),
                taint.effect
            )
        };
        let taints: Vec<String> = taints(now, node).into_iter().map(shown).collect();
        assert_eq!(taints, expected);
    }

    #[test]
    fn conditions_become_taints_and_go_with_them() {
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
    fn nobody_knows_how_a_silent_node_is() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let silent = silenced(now, &node(&[("Ready", "True")], &json!([]), false)).unwrap();
        let statuses: Vec<_> = silent
            .iter()
            .map(|own| (own.type_.as_str(), own.status.as_str()))
            .collect();
        assert_eq!(statuses, REPORTED.map(|type_| (type_, "Unknown")));
        assert_eq!(silent[0].reason.as_deref(), Some("NodeStatusUnknown"));
        assert_eq!(silent[1].reason.as_deref(), Some("NodeStatusNeverUpdated"));
        let mut again = node(&[], &json!([]), false);
        again.status.conditions = silent;
        assert_eq!(silenced(now, &again), None);
    }
}
