//! Explanations: for a pod and every node, the plugin that rejects it or the score of each plugin, now and at the time of the
//! last decision.
//!
//! An explanation is computed on the shared state by the same plugins as a scheduling cycle, and changes nothing.

mod decisions;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use setpoint_api::Stored;

pub use decisions::{Decision, Decisions, NodeRejection};

use crate::cycle::score;
use crate::framework::{CycleState, Profile, Rejection};
use crate::pod_info::{PodInfo, SpecInterner};
use crate::scheduler::planner::Planner;
use crate::state::{ClusterState, NodeIndex};

/// Explains the decisions of a scheduler, from the time it runs.
#[derive(Debug, Default)]
pub struct Explainer {
    planner: OnceLock<Arc<Planner>>,
    decisions: Arc<Decisions>,
}

/// Why a pod is or would be on a node, or on none.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub pod: String,
    /// The node that it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The rejection of all nodes by a PreFilter plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejection: Option<NodeRejection>,
    /// All nodes: first those that fit, the best first; then the others by name.
    pub nodes: Vec<NodeExplanation>,
    /// The last decision of this scheduler about the pod, if it is still known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_decision: Option<Decision>,
}

/// What the plugins return for one node.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeExplanation {
    pub node: String,
    /// The plugin that rejects the pod, and its reasons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejection: Option<NodeRejection>,
    /// The weighted score by plugin, if the pod fits.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
}

/// Why there is no explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExplainError {
    /// The scheduler does not run here, or not yet.
    NotRunning,
    /// The pod cannot be decoded.
    InvalidPod,
    /// No profile has the pod's scheduler name.
    NoProfile(String),
}

impl Explainer {
    pub(crate) fn attach(&self, planner: &Arc<Planner>) {
        let _ = self.planner.set(planner.clone());
    }

    pub(crate) fn decisions(&self) -> &Arc<Decisions> {
        &self.decisions
    }

    /// Explains a pod, which need not exist. A pod on a node is explained as if it were not there yet.
    pub fn explain(&self, object: &Stored) -> Result<Explanation, ExplainError> {
        let planner = self.planner.get().ok_or(ExplainError::NotRunning)?;
        let pod = PodInfo::read(object, &mut SpecInterner::default()).ok_or(ExplainError::InvalidPod)?;
        let profile = planner.profiles.find(&pod.spec.scheduler);
        let profile = profile.ok_or_else(|| ExplainError::NoProfile(pod.spec.scheduler.to_string()))?;
        let mut explanation = explain_in(profile, &pod, &planner.cluster.read());
        explanation.last_decision = self.decisions.find(&pod.key, &pod.uid);
        if let Some(decision) = &mut explanation.last_decision {
            let past = planner.cluster.read().at(decision.cluster_sequence);
            decision.nodes =
                past.map_or_else(Vec::new, |past| explain_in(profile, &pod, &past.build()).nodes);
        }
        Ok(explanation)
    }
}

/// Explains a pod on a state.
fn explain_in(profile: &Profile, pod: &PodInfo, cluster: &ClusterState) -> Explanation {
    let assigned = (!pod.node.is_empty()).then(|| pod.node.to_string());
    let pod = &PodInfo {
        node: Default::default(),
        ..pod.clone()
    };
    let mut explanation = Explanation {
        pod: pod.key.to_string(),
        node: assigned,
        rejection: None,
        nodes: Vec::new(),
        last_decision: None,
    };
    let mut cycle = CycleState::default();
    let limit = match profile.run_pre_filter(&mut cycle, pod, cluster) {
        Ok(limit) => limit,
        Err(rejected) => {
            explanation.rejection = Some((&rejected.rejection).into());
            return explanation;
        }
    };
    let mut feasible = Vec::new();
    for index in cluster.nodes().live() {
        let name = cluster.node(*index).name();
        let is_outside = limit.nodes.as_ref().is_some_and(|names| !names.contains(name));
        let rejection = match is_outside {
            true => {
                let reason = format!("node(s) didn't satisfy plugin(s) [{}]", limit.plugins.join(" "));
                Some(Rejection::unresolvable(reason))
            }
            false => filter(profile, &cycle, pod, cluster, *index).err(),
        };
        match rejection {
            None => feasible.push(*index),
            Some(rejection) => explanation
                .nodes
                .push(NodeExplanation::rejected(name, &rejection)),
        }
    }
    explanation.nodes.sort_by(|a, b| a.node.cmp(&b.node));
    let scored = score_nodes(profile, pod, cluster, &mut cycle, &feasible);
    explanation.nodes.splice(0..0, scored);
    explanation
}

/// Filters one node, without the pod itself if it is there.
fn filter(
    profile: &Profile,
    cycle: &CycleState,
    pod: &PodInfo,
    cluster: &ClusterState,
    index: NodeIndex,
) -> Result<(), Rejection> {
    let node = cluster.node(index);
    let Some(own) = node.pods().iter().find(|other| other.key == pod.key) else {
        return profile.run_filter_with_nominated(cycle, pod, node, cluster);
    };
    let (mut cycle, mut copy) = (cycle.clone(), node.to_copy());
    profile.remove_pod(&mut cycle, pod, own, &mut copy);
    profile.run_filter_with_nominated(&cycle, pod, copy.node(), cluster)
}

/// The scores of the feasible nodes, the best first.
fn score_nodes(
    profile: &Profile,
    pod: &PodInfo,
    cluster: &ClusterState,
    cycle: &mut CycleState,
    feasible: &[NodeIndex],
) -> Vec<NodeExplanation> {
    let plugins = score(profile, pod, cluster, cycle, feasible).unwrap_or_default();
    let nodes = feasible.iter().enumerate();
    let mut nodes: Vec<NodeExplanation> = nodes
        .map(|(position, index)| {
            let scores = plugins
                .iter()
                .map(|plugin| (plugin.plugin.to_owned(), plugin.scores[position].score));
            let scores: BTreeMap<String, i64> = scores.collect();
            NodeExplanation {
                node: cluster.node(*index).name().to_owned(),
                rejection: None,
                total: Some(scores.values().sum()),
                scores,
            }
        })
        .collect();
    nodes.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.node.cmp(&b.node)));
    nodes
}

impl NodeExplanation {
    fn rejected(node: &str, rejection: &Rejection) -> Self {
        Self {
            node: node.to_owned(),
            rejection: Some(rejection.into()),
            scores: BTreeMap::new(),
            total: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{cluster, pod_requesting};
    use crate::framework::Handle;
    use crate::plugins::default_profile;

    /// The nodes as `name:total` or `name:plugin`.
    #[track_caller]
    fn check(nodes: &str, pod: &PodInfo, expected: &str) {
        let explanation = explain_in(&default_profile(&Handle::default()), pod, &cluster(nodes));
        let shown: Vec<String> = explanation
            .nodes
            .iter()
            .map(|node| match &node.rejection {
                None => format!("{}:fits", node.node),
                Some(rejection) => format!("{}:{}", node.node, rejection.plugin),
            })
            .collect();
        assert_eq!(shown.join(" "), expected);
    }

    #[test]
    fn nodes_that_fit_come_first_and_the_best_leads() {
        let pod = pod_requesting("p", "", 500);
        check(
            "a=100 b=1000-400 c=1000",
            &pod,
            "c:fits b:fits a:NodeResourcesFit",
        );
    }

    #[test]
    fn a_decision_is_explained_by_the_nodes_that_its_cycle_saw() {
        let mut state = cluster("a=1000-900 b=1000");
        let sequence = state.sequence();
        state.remove_pod(&setpoint_api::Key::new("default", "on-a"));
        state.set_pod(Arc::new(pod_requesting("on-b", "b", 800)));
        state.set_node(&crate::fixtures::node("c", 1000));
        let pod = pod_requesting("p", "", 500);
        let profile = default_profile(&Handle::default());
        let shown = |state: &ClusterState| {
            let nodes = explain_in(&profile, &pod, state).nodes;
            let fits = nodes.iter().filter(|node| node.rejection.is_none());
            let mut names: Vec<String> = fits.map(|node| node.node.clone()).collect();
            names.sort();
            (names.join(" "), nodes.len())
        };
        assert_eq!(shown(&state), ("a c".to_owned(), 3));
        assert_eq!(shown(&state.at(sequence).unwrap().build()), ("b".to_owned(), 2));
    }

    #[test]
    fn a_pod_on_a_node_is_explained_as_if_it_were_not_there_yet() {
        let mut pod = pod_requesting("on-a", "a", 900);
        check("a=1000-900", &pod, "a:fits");
        pod.key = setpoint_api::Key::new("default", "other");
        check("a=1000-900", &pod, "a:NodeResourcesFit");
    }
}
