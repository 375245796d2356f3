//! NodeAffinity: a pod fits only nodes that match its node selector, its required node affinity and that of the profile;
//! preferred terms add their weights to the score.

use std::sync::Arc;

use serde::Deserialize;

use super::{PluginArgs, PluginError, default_normalize};
use crate::framework::{
    ActionType, ClusterEvent, CycleState, Dependency, EnqueueExtensions, EventChange, EventResource, Filter,
    Handle, NodeNames, NodeScore, Plugin, PreFilter, PreFilterResult, PreScore, PreScoreResult, QueueingHint,
    Registration, Rejection, Score, Sign,
};
use crate::pod_info::PodInfo;
use crate::pod_info::node_selector::{NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm};
use crate::state::{ClusterState, NodeIndex, NodeProperties, NodeRef};

/// The plugin, with the affinity that the profile adds to every pod.
#[derive(Debug, Default)]
pub(super) struct NodeAffinity {
    added_required: Option<NodeSelector>,
    added_preferred: Vec<PreferredSchedulingTerm>,
}

/// Its arguments (upstream: `NodeAffinityArgs`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeAffinityArgs {
    added_affinity: AddedAffinity,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AddedAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: Vec<PreferredSchedulingTerm>,
}

pub(super) fn build(args: &PluginArgs, _: &Handle) -> Result<Registration, PluginError> {
    let args: NodeAffinityArgs = args.decode()?;
    let plugin = Arc::new(NodeAffinity {
        added_required: args.added_affinity.required,
        added_preferred: args.added_affinity.preferred,
    });
    Ok(Registration {
        pre_filter: Some(plugin.clone()),
        filter: Some(plugin.clone()),
        pre_score: Some(plugin.clone()),
        score: Some(plugin.clone()),
        enqueue: Some(plugin.clone()),
        sign: Some(plugin),
        ..Registration::new("NodeAffinity")
    })
}

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }
}

impl PreFilter for NodeAffinity {
    fn pre_filter(
        &self,
        _: &mut CycleState,
        pod: &PodInfo,
        _: &ClusterState,
    ) -> Result<PreFilterResult, Rejection> {
        let Some(required) = &pod.spec.required_node_affinity else {
            let has_nothing = pod.spec.node_selector.is_empty() && self.added_required.is_none();
            return Ok(if has_nothing {
                PreFilterResult::Skip
            } else {
                PreFilterResult::AllNodes
            });
        };
        match names_of_terms(&required.node_selector_terms) {
            None => Ok(PreFilterResult::AllNodes),
            Some(names) if names.is_empty() => Err(Rejection::unresolvable("pod affinity terms conflict")),
            Some(names) => Ok(PreFilterResult::Nodes(names)),
        }
    }
}

/// The nodes that the terms name; `None` if a term may match others, too.
fn names_of_terms(terms: &[NodeSelectorTerm]) -> Option<NodeNames> {
    if terms.is_empty() {
        return None;
    }
    let mut names = NodeNames::new();
    for term in terms {
        names.extend(term.node_names()?.into_iter().map(Into::into));
    }
    Some(names)
}

impl Filter for NodeAffinity {
    fn filter(&self, _: &CycleState, pod: &PodInfo, node: NodeRef<'_>) -> Result<(), Rejection> {
        if !self.matches_added(node.name(), node.properties()) {
            return Err(Rejection::unresolvable(
                "node(s) didn't match scheduler-enforced node affinity",
            ));
        }
        match matches_pod(pod, node.name(), node.properties()) {
            true => Ok(()),
            false => Err(Rejection::unresolvable(
                "node(s) didn't match Pod's node affinity/selector",
            )),
        }
    }
}

impl PreScore for NodeAffinity {
    fn pre_score(
        &self,
        _: &mut CycleState,
        pod: &PodInfo,
        _: &ClusterState,
        _: &[NodeIndex],
    ) -> Result<PreScoreResult, Rejection> {
        let has_nothing = pod.spec.preferred_node_affinity.is_empty() && self.added_preferred.is_empty();
        Ok(if has_nothing {
            PreScoreResult::Skip
        } else {
            PreScoreResult::Score
        })
    }
}

impl Score for NodeAffinity {
    fn score(&self, _: &CycleState, pod: &PodInfo, node: NodeRef<'_>) -> i64 {
        let terms = self
            .added_preferred
            .iter()
            .chain(&pod.spec.preferred_node_affinity);
        let label = |name: &str| node.label(name);
        let matching = terms.filter(|term| term.preference.matches(node.name(), &label));
        matching.map(|term| i64::from(term.weight)).sum()
    }

    fn normalize(&self, _: &CycleState, _: &PodInfo, scores: &mut [NodeScore]) {
        default_normalize(scores, false);
    }

    fn normalizes(&self) -> bool {
        true
    }
}

impl EnqueueExtensions for NodeAffinity {
    fn events_to_register(&self) -> Vec<ClusterEvent> {
        let action = ActionType::ADD | ActionType::UPDATE_NODE_LABEL;
        vec![ClusterEvent::new(EventResource::Node, action)]
    }

    fn queueing_hint(&self, pod: &PodInfo, _: ClusterEvent, change: &EventChange) -> QueueingHint {
        let EventChange::Node(change) = change else {
            return QueueingHint::Queue;
        };
        let matches = |node: &Option<Arc<NodeProperties>>| {
            let matches = |node: &Arc<NodeProperties>| matches_pod(pod, &change.name, node);
            node.as_ref().is_some_and(matches)
        };
        let is_allowed = change
            .new
            .as_ref()
            .is_some_and(|node| self.matches_added(&change.name, node));
        QueueingHint::queue_if(is_allowed && matches(&change.new) && !matches(&change.old))
    }
}

impl Sign for NodeAffinity {
    fn dependency(&self, _: &PodInfo, _: &ClusterState) -> Dependency {
        Dependency::Node
    }
}

impl NodeAffinity {
    fn matches_added(&self, name: &str, node: &NodeProperties) -> bool {
        let label = |name: &str| node.label(name);
        self.added_required
            .as_ref()
            .is_none_or(|selector| selector.matches(name, &label))
    }
}

/// Whether the node has the labels of the pod's node selector, and matches its required affinity.
pub(super) fn matches_pod(pod: &PodInfo, name: &str, node: &NodeProperties) -> bool {
    let label = |name: &str| node.label(name);
    let mut selected = pod.spec.node_selector.iter();
    selected.all(|(name, value)| node.labels.get(name) == Some(value))
        && pod
            .spec
            .required_node_affinity
            .as_ref()
            .is_none_or(|affinity| affinity.matches(name, &label))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{cluster_of, filter_reasons, pod_from};

    /// The node is called `n1` and has the labels `zone=a` and `size=8`.
    fn cluster() -> ClusterState {
        cluster_of("n1", json!({"metadata": {"labels": {"zone": "a", "size": "8"}}}))
    }

    #[track_caller]
    fn check(spec: Value, expected: &str) {
        let pod = pod_from(json!({"spec": spec}));
        assert_eq!(
            filter_reasons(&NodeAffinity::default(), &pod, &cluster()),
            expected
        );
    }

    fn required(term: Value) -> Value {
        let required = json!({"nodeSelectorTerms": [term]});
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
    }

    #[test]
    fn selector_and_affinity_must_match() {
        let mismatch = "node(s) didn't match Pod's node affinity/selector";
        check(json!({"nodeSelector": {"zone": "a"}}), "");
        check(json!({"nodeSelector": {"zone": "b"}}), mismatch);
        check(
            required(json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]})),
            "",
        );
        check(
            required(json!({"matchExpressions": [{"key": "rack", "operator": "Exists"}]})),
            mismatch,
        );
    }

    #[track_caller]
    fn check_names(values: &[&[&str]], expected: Result<PreFilterResult, &str>) {
        let field = |values: &&[&str]| json!({"key": "metadata.name", "operator": "In", "values": values});
        let fields: Vec<Value> = values.iter().map(field).collect();
        let pod = pod_from(json!({"spec": required(json!({"matchFields": fields}))}));
        let result = NodeAffinity::default().pre_filter(&mut CycleState::default(), &pod, &cluster());
        assert_eq!(
            result.map_err(|rejection| rejection.to_string()),
            expected.map_err(str::to_owned)
        );
    }

    #[test]
    fn a_pod_that_names_nodes_is_limited_to_them() {
        let nodes =
            |names: &[&str]| PreFilterResult::Nodes(names.iter().map(|name| (*name).into()).collect());
        check_names(&[&["a", "b"]], Ok(nodes(&["a", "b"])));
        check_names(&[&["a", "b"], &["b", "c"]], Ok(nodes(&["b"])));
        check_names(&[&["a"], &["b"]], Err("pod affinity terms conflict"));
    }

    #[test]
    fn preferred_terms_add_up() {
        let term = |key: &str, weight: i32| {
            json!({"weight": weight, "preference":
            {"matchExpressions": [{"key": key, "operator": "Exists"}]}})
        };
        let preferred = json!([term("zone", 3), term("rack", 5), term("size", 4)]);
        let pod = pod_from(json!({"spec": {"affinity": {"nodeAffinity":
            {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}}));
        let cluster = cluster();
        let node = cluster.node(cluster.nodes().live()[0]);
        assert_eq!(
            NodeAffinity::default().score(&CycleState::default(), &pod, node),
            7
        );
    }

    #[test]
    fn the_profile_adds_affinity_to_every_pod() {
        let args = json!({"addedAffinity": required(json!({"matchExpressions": [{"key": "rack", "operator": "Exists"}]}))
            ["affinity"]["nodeAffinity"]});
        let plugin = build(&PluginArgs(args), &Handle::default())
            .unwrap()
            .filter
            .unwrap();
        let reasons = filter_reasons(&*plugin, &pod_from(json!({"spec": {}})), &cluster());
        assert_eq!(reasons, "node(s) didn't match scheduler-enforced node affinity");
    }
}
