//! TaintToleration: a node's taints keep away the pods that do not tolerate them; nodes with fewer untolerated
//! PreferNoSchedule taints score higher.

use std::sync::Arc;

use super::{PluginArgs, PluginError, default_normalize};
use crate::framework::{
    ActionType, ClusterEvent, CycleState, Dependency, EnqueueExtensions, EventChange, EventResource, Filter,
    Handle, NodeScore, Plugin, QueueingHint, Registration, Rejection, Score, Sign,
};
use crate::pod_info::{PodInfo, Toleration};
use crate::state::{ClusterState, NodeProperties, NodeRef};

#[derive(Debug)]
pub(super) struct TaintToleration;

pub(super) fn build(_: &PluginArgs, _: &Handle) -> Result<Registration, PluginError> {
    Ok(Registration {
        filter: Some(Arc::new(TaintToleration)),
        score: Some(Arc::new(TaintToleration)),
        enqueue: Some(Arc::new(TaintToleration)),
        sign: Some(Arc::new(TaintToleration)),
        ..Registration::new(TaintToleration.name())
    })
}

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }
}

impl Filter for TaintToleration {
    fn filter(&self, _: &CycleState, pod: &PodInfo, node: NodeRef<'_>) -> Result<(), Rejection> {
        match is_tolerated(pod, node.properties()) {
            true => Ok(()),
            false => Err(Rejection::unresolvable("node(s) had untolerated taint(s)")),
        }
    }
}

impl Score for TaintToleration {
    fn score(&self, _: &CycleState, pod: &PodInfo, node: NodeRef<'_>) -> i64 {
        let taints = node.properties().taints.iter();
        let untolerated = taints.filter(|taint| taint.effect == "PreferNoSchedule" && !pod.tolerates(taint));
        i64::try_from(untolerated.count()).unwrap_or(i64::MAX)
    }

    fn normalize(&self, _: &CycleState, _: &PodInfo, scores: &mut [NodeScore]) {
        default_normalize(scores, true);
    }

    fn normalizes(&self) -> bool {
        true
    }
}

impl EnqueueExtensions for TaintToleration {
    fn events_to_register(&self) -> Vec<ClusterEvent> {
        vec![
            ClusterEvent::new(
                EventResource::Node,
                ActionType::ADD | ActionType::UPDATE_NODE_TAINT,
            ),
            ClusterEvent::new(EventResource::TargetPod, ActionType::UPDATE_POD_TOLERATION),
        ]
    }

    fn queueing_hint(&self, pod: &PodInfo, _: ClusterEvent, change: &EventChange) -> QueueingHint {
        let EventChange::Node(change) = change else {
            return QueueingHint::Queue;
        };
        let was_tolerated = change.old.as_ref().is_some_and(|node| is_tolerated(pod, node));
        let tolerated = change.new.as_ref().is_some_and(|node| is_tolerated(pod, node));
        QueueingHint::queue_if(!was_tolerated && tolerated)
    }
}

impl Sign for TaintToleration {
    fn dependency(&self, _: &PodInfo, _: &ClusterState) -> Dependency {
        Dependency::Node
    }
}

/// Whether the pod tolerates every taint that forbids scheduling.
fn is_tolerated(pod: &PodInfo, node: &NodeProperties) -> bool {
    let mut forbidding = node.taints.iter().filter(|taint| forbids(taint));
    forbidding.all(|taint| pod.tolerates(taint))
}

/// Whether the taint keeps pods away, and is not a mere preference.
fn forbids(taint: &Toleration) -> bool {
    matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{cluster_of, filter_reasons, pod, with_spec};

    /// A taint as `key=value:effect`, a toleration likewise, with `*` for any value.
    fn parse(text: &str) -> Toleration {
        let (rest, effect) = text.split_once(':').unwrap();
        let (key, value) = rest.split_once('=').unwrap();
        let operator = if value == "*" { "Exists" } else { "Equal" };
        Toleration {
            key: key.into(),
            operator: operator.into(),
            value: value.into(),
            effect: effect.into(),
        }
    }

    fn pod_and_node(taints: &[&str], tolerations: &[&str]) -> (PodInfo, ClusterState) {
        let taint = |text: &&str| {
            let taint = parse(text);
            json!({"key": taint.key, "value": taint.value, "effect": taint.effect})
        };
        let taints: Vec<_> = taints.iter().map(taint).collect();
        let cluster = cluster_of("n", json!({"spec": {"taints": taints}}));
        let pod = with_spec(pod("p", ""), |spec| {
            spec.tolerations = tolerations.iter().map(|text| parse(text)).collect();
        });
        (pod, cluster)
    }

    #[track_caller]
    fn check(taints: &[&str], tolerations: &[&str], expected: bool) {
        let (pod, cluster) = pod_and_node(taints, tolerations);
        let reasons = filter_reasons(&TaintToleration, &pod, &cluster);
        assert_eq!(reasons.is_empty(), expected, "{reasons}");
    }

    #[test]
    fn every_forbidding_taint_must_be_tolerated() {
        check(&[], &[], true);
        check(&["a=b:NoSchedule"], &[], false);
        check(&["a=b:PreferNoSchedule"], &[], true);
        check(&["a=b:NoSchedule"], &["a=b:NoSchedule"], true);
        check(&["a=b:NoSchedule"], &["a=c:NoSchedule"], false);
        check(&["a=b:NoSchedule"], &["a=*:"], true);
        check(&["a=b:NoSchedule", "c=d:NoExecute"], &["a=*:"], false);
        check(&["a=b:NoSchedule", "c=d:NoExecute"], &["=*:"], true);
    }

    #[track_caller]
    fn check_score(taints: &[&str], tolerations: &[&str], expected: i64) {
        let (pod, cluster) = pod_and_node(taints, tolerations);
        let node = cluster.node(cluster.nodes().live()[0]);
        assert_eq!(
            TaintToleration.score(&CycleState::default(), &pod, node),
            expected
        );
    }

    #[test]
    fn untolerated_preferences_are_counted() {
        check_score(&["a=b:PreferNoSchedule", "c=d:PreferNoSchedule"], &["a=b:"], 1);
        check_score(&["a=b:NoSchedule"], &[], 0);
    }
}
