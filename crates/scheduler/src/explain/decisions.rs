//! [`Decisions`]: the last decisions of the scheduler, to explain them later.

use std::collections::{BTreeMap, HashMap, VecDeque};

use compact_str::CompactString;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Serialize, Serializer};
use setpoint_api::Key;

use super::NodeExplanation;
use crate::framework::Rejection;
use crate::pod_info::PodInfo;
use crate::scheduler::planner::{Choice, Failure};
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
    key: Key,
    #[serde(skip)]
    uid: CompactString,
    /// The sequence of the state that the cycle saw.
    #[serde(skip)]
    pub(super) cluster_sequence: u64,
    #[serde(serialize_with = "to_text")]
    pub time: Timestamp,
    /// The node that was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<CompactString>,
    /// The nodes that were filtered, and those among them that fitted.
    pub evaluated_nodes: usize,
    pub feasible_nodes: usize,
    /// The weighted score of the chosen node by plugin; empty if it was the only feasible one.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "to_map")]
    pub scores: Vec<(&'static str, i64)>,
    /// The message if no node fitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The rejections of the nodes if none fitted, at most a hundred.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rejections: BTreeMap<String, NodeRejection>,
    /// All nodes as the cycle saw them, if the changes since are still known. The volumes, claims and budgets that plugins
    /// read are those of now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeExplanation>,
}

/// The plugin that rejected a pod on a node, and its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeRejection {
    pub plugin: String,
    pub reasons: Vec<String>,
}

impl Decisions {
    pub(crate) fn record(&self, decision: Decision) {
        let key = decision.key.clone();
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
        Self {
            node: Some(pod.node.clone()),
            evaluated_nodes: choice.statistics.evaluated,
            feasible_nodes: choice.statistics.feasible,
            cluster_sequence: choice.cluster_sequence,
            scores: choice.scores.clone(),
            ..Self::new(now, pod)
        }
    }

    pub(crate) fn unschedulable(
        now: Timestamp,
        pod: &PodInfo,
        failure: &Failure,
        cluster: &ClusterState,
    ) -> Self {
        let diagnosis = &failure.diagnosis;
        let nodes = diagnosis.nodes.iter().take(MAX_NODES);
        let rejections =
            nodes.map(|(node, rejection)| (cluster.node(*node).name().to_owned(), rejection.into()));
        Self {
            evaluated_nodes: diagnosis.nodes.len(),
            message: Some(diagnosis.to_string()),
            rejections: rejections.collect(),
            cluster_sequence: failure.cluster_sequence,
            ..Self::new(now, pod)
        }
    }

    fn new(now: Timestamp, pod: &PodInfo) -> Self {
        Self {
            key: pod.key.clone(),
            uid: pod.uid.clone(),
            time: now,
            node: None,
            evaluated_nodes: 0,
            feasible_nodes: 0,
            scores: Vec::new(),
            message: None,
            rejections: BTreeMap::new(),
            cluster_sequence: 0,
            nodes: Vec::new(),
        }
    }
}

fn to_text<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(time)
}

/// Scores as an object with the plugins in the order of their names.
fn to_map<S: Serializer>(scores: &[(&'static str, i64)], serializer: S) -> Result<S::Ok, S::Error> {
    let by_plugin: BTreeMap<&str, i64> = scores.iter().copied().collect();
    by_plugin.serialize(serializer)
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
