//! [`Decisions`]: the last decisions of the scheduler, to explain them later.

use std::collections::{BTreeMap, HashMap, VecDeque};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use setpoint_api::Key;

use crate::cycle::Diagnosis;
use crate::framework::Rejection;
use crate::pod_info::PodInfo;
use crate::scheduler::planner::Choice;
use crate::state::ClusterState;

/// The number of decisions that are kept; the oldest is dropped.
const MAX_DECISIONS: usize = 4096;
/// The number of rejected nodes that are kept with a decision.
const MAX_NODES: usize = 100;

/// The last decision about each pod.
#[derive(Debug, Default)]
pub struct Decisions {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    by_pod: HashMap<Key, Decision>,
    /// The pods in the order of their decisions.
    order: VecDeque<Key>,
}

/// A decision about a pod.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    #[serde(skip)]
    key: Option<Key>,
    #[serde(skip)]
    uid: String,
    pub time: String,
    /// The node that was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The nodes that were filtered, and those among them that fitted.
    pub evaluated_nodes: usize,
    pub feasible_nodes: usize,
    /// The weighted score of the chosen node by plugin; empty if it was the only feasible one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, i64>,
    /// The message if no node fitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The rejections of the nodes if none fitted, at most a hundred.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rejections: BTreeMap<String, NodeRejection>,
}

/// The plugin that rejected a pod on a node, and its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeRejection {
    pub plugin: String,
    pub reasons: Vec<String>,
}

impl Decisions {
    pub(crate) fn record(&self, decision: Decision) {
        let Some(key) = decision.key.clone() else {
            return;
        };
        let mut state = self.state.lock();
        if state.by_pod.insert(key.clone(), decision).is_none() {
            state.order.push_back(key);
        }
        if state.order.len() > MAX_DECISIONS
            && let Some(oldest) = state.order.pop_front()
        {
            state.by_pod.remove(&oldest);
        }
    }

    pub(super) fn find(&self, key: &Key, uid: &str) -> Option<Decision> {
        let state = self.state.lock();
        state
            .by_pod
            .get(key)
            .filter(|decision| decision.uid == uid)
            .cloned()
    }
}

impl Decision {
    pub(crate) fn scheduled(now: Timestamp, pod: &PodInfo, choice: &Choice) -> Self {
        let scores = choice
            .scores
            .iter()
            .map(|(plugin, score)| ((*plugin).to_owned(), *score));
        Self {
            node: Some(pod.node.to_string()),
            evaluated_nodes: choice.statistics.evaluated,
            feasible_nodes: choice.statistics.feasible,
            scores: scores.collect(),
            ..Self::new(now, pod)
        }
    }

    pub(crate) fn unschedulable(
        now: Timestamp,
        pod: &PodInfo,
        diagnosis: &Diagnosis,
        cluster: &ClusterState,
    ) -> Self {
        let nodes = diagnosis.nodes.iter().take(MAX_NODES);
        let rejections =
            nodes.map(|(node, rejection)| (cluster.node(*node).name().to_owned(), rejection.into()));
        Self {
            evaluated_nodes: diagnosis.nodes.len(),
            message: Some(diagnosis.to_string()),
            rejections: rejections.collect(),
            ..Self::new(now, pod)
        }
    }

    fn new(now: Timestamp, pod: &PodInfo) -> Self {
        Self {
            key: Some(pod.key.clone()),
            uid: pod.uid.to_string(),
            time: now.to_string(),
            node: None,
            evaluated_nodes: 0,
            feasible_nodes: 0,
            scores: BTreeMap::new(),
            message: None,
            rejections: BTreeMap::new(),
        }
    }
}

impl From<&Rejection> for NodeRejection {
    fn from(rejection: &Rejection) -> Self {
        Self {
            plugin: rejection.plugin.to_owned(),
            reasons: rejection.reasons().map(ToString::to_string).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_decision_makes_way_for_a_new_one() {
        let decisions = Decisions::default();
        let pod = |n: usize| crate::fixtures::pod(&format!("p{n}"), "a");
        for n in 0..=MAX_DECISIONS {
            decisions.record(Decision::new(Timestamp::UNIX_EPOCH, &pod(n)));
        }
        let is_known = |n: usize| decisions.find(&pod(n).key, &pod(n).uid).is_some();
        assert_eq!(
            (is_known(0), is_known(1), is_known(MAX_DECISIONS)),
            (false, true, true)
        );
        assert!(decisions.find(&pod(1).key, "another uid").is_none());
    }
}
