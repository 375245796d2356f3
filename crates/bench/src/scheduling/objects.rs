//! The objects of the workloads. `########` is the number of each object.

use serde_json::{Value, json};

/// The zones that the nodes are in, in turn.
pub(super) const ZONES: u64 = 10;
pub(super) const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
pub(super) const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
/// CPUs of a node.
pub(super) const NODE_CPU: u64 = 32;
/// CPUs of a pod that fills a quarter of a node.
pub(super) const LARGE_POD_CPU: u64 = NODE_CPU / 4;

/// What the pods require.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workload {
    /// Resources only.
    Plain,
    /// Two pods of a group never share a node.
    AntiAffinity,
    /// The pods of a group are spread over the zones, `maxSkew: 1`.
    Spread,
    /// All nodes are full of pods of a lower priority.
    Preemption,
    /// Resources only, while nodes, Services and pods come and go.
    Churn,
}

impl Workload {
    pub(super) const ALL: &[Self] = &[
        Self::Plain,
        Self::AntiAffinity,
        Self::Spread,
        Self::Preemption,
        Self::Churn,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::AntiAffinity => "anti-affinity",
            Self::Spread => "spread",
            Self::Preemption => "preemption",
            Self::Churn => "churn",
        }
    }

    /// The groups of pods: with anti-affinity, a group has at most two pods for five nodes.
    pub(super) fn groups(self, nodes: u64, pods: u64) -> u64 {
        match self {
            Self::AntiAffinity | Self::Spread => pods.div_ceil((nodes * 2 / 5).max(1)),
            _ => 1,
        }
    }

    /// The pods of a group.
    pub(super) fn pod(self, group: u64) -> Value {
        let labels = json!({"app": format!("group-{group}")});
        let selector = json!({"matchLabels": labels});
        let mut pod = pod(&format!("{}-{group}", self.name()), "100m");
        pod["metadata"]["labels"] = labels;
        let spec = &mut pod["spec"];
        match self {
            Self::Plain | Self::Churn => {}
            Self::AntiAffinity => {
                let term = json!({"topologyKey": HOSTNAME_LABEL, "labelSelector": selector});
                spec["affinity"] =
                    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
            }
            Self::Spread => {
                spec["topologySpreadConstraints"] = json!([{
                    "maxSkew": 1,
                    "topologyKey": ZONE_LABEL,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": selector,
                }]);
            }
            Self::Preemption => {
                spec["priorityClassName"] = json!("high");
                spec["containers"][0]["resources"]["requests"]["cpu"] = json!(LARGE_POD_CPU.to_string());
            }
        }
        pod
    }
}

/// A node of a zone, without an agent.
pub(super) fn node(zone: u64) -> Value {
    let resources = json!({"cpu": NODE_CPU.to_string(), "memory": "256Gi", "pods": "110"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "node-########",
            "labels": {HOSTNAME_LABEL: "node-########", ZONE_LABEL: format!("zone-{zone}")},
        },
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    })
}

/// A pod that fills a quarter of a node. It ends at once when it is deleted, since no agent confirms its end.
pub(super) fn low_priority_pod() -> Value {
    let mut pod = pod("low", &LARGE_POD_CPU.to_string());
    pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
    pod
}

pub(super) fn high_priority_class() -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    })
}

fn pod(prefix: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("{prefix}-########")},
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "main",
                "image": "example.com/app:1",
                "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(workload: Workload, (nodes, pods): (u64, u64), groups: u64) {
        assert_eq!(workload.groups(nodes, pods), groups);
    }

    #[test]
    fn a_group_with_anti_affinity_fits_on_the_nodes() {
        check(Workload::AntiAffinity, (5_000, 50_000), 25);
        check(Workload::AntiAffinity, (5, 3), 2);
        check(Workload::Plain, (5_000, 50_000), 1);
    }
}
