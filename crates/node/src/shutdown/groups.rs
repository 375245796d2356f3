//! The order in which the pods of a node end: pure.

use std::time::Duration;

use crate::pod::bound_pod::BoundPod;

/// The least priority of critical pods.
const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// Pods that end together.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) grace_period: Duration,
    pub(super) pods: Vec<BoundPod>,
}

/// The groups of pods in the order of their end: ordinary ones, then critical ones. Groups without pods are left out.
pub(super) fn groups(pods: Vec<BoundPod>, all: Duration, critical: Duration) -> Vec<Group> {
    let is_critical = |pod: &BoundPod| {
        pod.spec()
            .priority
            .is_some_and(|priority| priority >= SYSTEM_CRITICAL_PRIORITY)
    };
    let (critical_pods, ordinary_pods) = pods.into_iter().partition(is_critical);
    let groups = [
        Group {
            grace_period: all.saturating_sub(critical),
            pods: ordinary_pods,
        },
        Group {
            grace_period: critical,
            pods: critical_pods,
        },
    ];
    groups
        .into_iter()
        .filter(|group| !group.pods.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(pods: &[(&str, i32)], expected: &[&str]) {
        let pod = |(name, priority): &(&str, i32)| {
            let pod =
                json!({ "metadata": { "name": name }, "spec": { "priority": priority, "containers": [] } });
            BoundPod::new(serde_json::from_value(pod).unwrap())
        };
        let groups = groups(
            pods.iter().map(pod).collect(),
            Duration::from_secs(30),
            Duration::from_secs(10),
        );
        let shown = |group: &Group| {
            let names: Vec<&str> = group.pods.iter().map(|pod| pod.key.name()).collect();
            format!("{}s {}", group.grace_period.as_secs(), names.join(" "))
        };
        assert_eq!(groups.iter().map(shown).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn critical_pods_end_last_with_their_part_of_the_time() {
        let pods = [
            ("dns", 2_000_000_000),
            ("web", 0),
            ("agent", 2_000_001_000),
            ("db", 1000),
        ];
        check(&pods, &["20s web db", "10s dns agent"]);
        check(&[("dns", 2_000_000_000)], &["10s dns"]);
        check(&[], &[]);
    }
}
