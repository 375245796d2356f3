//! Runs the planning plugins of a profile, as upstream's `framework/runtime` does.

use std::sync::Arc;

use super::cycle_state::CycleState;
use super::extension_points::{Dependency, NodeNames, NodeScore, PreFilterResult, PreScoreResult};
use super::profile::Profile;
use super::rejection::{Code, Rejection};
use crate::pod_info::PodInfo;
use crate::state::{ClusterState, NodeCopy, NodeIndex, NodeRef};

/// The nodes that PreFilter plugins left.
#[derive(Debug, Default)]
pub(crate) struct NodeLimit {
    /// `None` for all nodes.
    pub(crate) nodes: Option<NodeNames>,
    /// The plugins that limited them, sorted.
    pub(crate) plugins: Vec<&'static str>,
}

/// A rejection of all nodes, with the plugins that are to blame if it has none itself.
#[derive(Debug)]
pub(crate) struct PreFilterRejection {
    pub(crate) rejection: Rejection,
    pub(crate) plugins: Vec<&'static str>,
}

impl Profile {
    /// Runs PreFilter. An unresolvable rejection ends it; after one that preemption may resolve, the others still run, since
    /// preemption needs their state.
    pub(crate) fn run_pre_filter(
        &self,
        cycle: &mut CycleState,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> Result<NodeLimit, PreFilterRejection> {
        let (mut limit, mut rejected) = (NodeLimit::default(), None);
        for plugin in &self.pre_filter {
            let name = plugin.name();
            match plugin.pre_filter(cycle, pod, cluster) {
                Ok(PreFilterResult::AllNodes) => {}
                Ok(PreFilterResult::Skip) => self.skip_filter(cycle, name),
                Ok(PreFilterResult::Nodes(nodes)) => limit.intersect(name, nodes)?,
                Err(rejection) if rejection.code == Code::Unschedulable => {
                    rejected = Some(rejection.by(name))
                }
                Err(rejection) => {
                    let rejection = rejection.with_prefix(|| format!("running PreFilter plugin \"{name}\""));
                    return Err(PreFilterRejection::new(rejection.by(name)));
                }
            }
        }
        match rejected {
            Some(rejection) => Err(PreFilterRejection::new(rejection)),
            None => Ok(limit),
        }
    }

    /// The first rejection of the node by a Filter plugin.
    pub(crate) fn run_filter(
        &self,
        cycle: &CycleState,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> Result<(), Rejection> {
        for (position, plugin) in self.filter.iter().enumerate() {
            if cycle.is_filter_skipped(position) {
                continue;
            }
            plugin.filter(cycle, pod, node).map_err(|rejection| {
                let name = plugin.name();
                rejection
                    .with_prefix(|| format!("running \"{name}\" filter plugin"))
                    .by(name)
            })?;
        }
        Ok(())
    }

    /// Runs Filter with the pods of the same or a higher priority that are nominated to the node, and without them: they may
    /// not arrive, and the pod must fit in both cases.
    pub(crate) fn run_filter_with_nominated(
        &self,
        cycle: &CycleState,
        pod: &PodInfo,
        node: NodeRef<'_>,
        cluster: &ClusterState,
    ) -> Result<(), Rejection> {
        if !cluster.nominated().is_empty() {
            let nominated = cluster.nominated().on_node(node.name()).iter();
            let counted: Vec<_> = nominated
                .filter(|one| one.priority() >= pod.priority() && one.uid != pod.uid)
                .collect();
            if !counted.is_empty() {
                let (mut cycle, mut copy) = (cycle.clone(), node.to_copy());
                for one in counted {
                    self.add_pod(&mut cycle, pod, one, &mut copy);
                }
                self.run_filter(&cycle, pod, copy.node())?;
            }
        }
        self.run_filter(cycle, pod, node)
    }

    /// Adds a pod to a copy of a node, and to the cycle state.
    pub(crate) fn add_pod(
        &self,
        cycle: &mut CycleState,
        pod: &PodInfo,
        added: &Arc<PodInfo>,
        copy: &mut NodeCopy,
    ) {
        copy.add_pod(added.clone());
        for plugin in &self.pre_filter {
            plugin.add_pod(cycle, pod, added, copy.node());
        }
    }

    /// Removes a pod from a copy of a node, and from the cycle state.
    pub(crate) fn remove_pod(
        &self,
        cycle: &mut CycleState,
        pod: &PodInfo,
        removed: &Arc<PodInfo>,
        copy: &mut NodeCopy,
    ) {
        copy.remove_pod(removed);
        for plugin in &self.pre_filter {
            plugin.remove_pod(cycle, pod, removed, copy.node());
        }
    }

    pub(crate) fn run_pre_score(
        &self,
        cycle: &mut CycleState,
        pod: &PodInfo,
        cluster: &ClusterState,
        nodes: &[NodeIndex],
    ) -> Result<(), Rejection> {
        for plugin in &self.pre_score {
            let name = plugin.name();
            let result = plugin.pre_score(cycle, pod, cluster, nodes);
            if result.map_err(|rejection| rejection.by(name))? == PreScoreResult::Skip
                && let Some(position) = self.score.iter().position(|(score, _)| score.name() == name)
            {
                cycle.skip_score(position);
            }
        }
        Ok(())
    }

    /// The weighted scores of the nodes by each Score plugin, in the order of the nodes. A skipped plugin has none.
    pub(crate) fn run_score(
        &self,
        cycle: &CycleState,
        pod: &PodInfo,
        cluster: &ClusterState,
        nodes: &[NodeIndex],
    ) -> Vec<PluginScores> {
        let plugins = self.score.iter().enumerate();
        let running = plugins.filter(|(position, _)| !cycle.is_score_skipped(*position));
        running
            .map(|(_, (plugin, weight))| {
                let score = |node: &NodeIndex| NodeScore {
                    node: *node,
                    score: plugin.score(cycle, pod, cluster.node(*node)),
                };
                let mut scores: Vec<NodeScore> = nodes.iter().map(score).collect();
                plugin.normalize(cycle, pod, &mut scores);
                scores.iter_mut().for_each(|score| score.score *= weight);
                PluginScores {
                    plugin: plugin.name(),
                    scores,
                }
            })
            .collect()
    }

    /// What the results of all plugins for the pod depend on.
    pub(crate) fn dependency(&self, pod: &PodInfo, cluster: &ClusterState) -> Dependency {
        if !self.unsigned.is_empty() {
            return Dependency::Cluster;
        }
        let all = self.sign.iter().map(|plugin| plugin.dependency(pod, cluster));
        all.max().unwrap_or(Dependency::Node)
    }

    fn skip_filter(&self, cycle: &mut CycleState, name: &str) {
        if let Some(position) = self.filter.iter().position(|filter| filter.name() == name) {
            cycle.skip_filter(position);
        }
    }
}

/// The weighted scores of one plugin.
#[derive(Debug, Clone)]
pub struct PluginScores {
    pub plugin: &'static str,
    pub scores: Vec<NodeScore>,
}

impl NodeLimit {
    /// Limits the nodes further; an error if none is left.
    fn intersect(&mut self, plugin: &'static str, nodes: NodeNames) -> Result<(), PreFilterRejection> {
        self.plugins.push(plugin);
        self.plugins.sort_unstable();
        let left = match self.nodes.take() {
            None => nodes,
            Some(own) => own.intersection(&nodes).cloned().collect(),
        };
        if left.is_empty() {
            let reason = match self.plugins[..] {
                [only] => format!("node(s) didn't satisfy plugin {only}"),
                _ => format!(
                    "node(s) didn't satisfy plugin(s) [{}] simultaneously",
                    self.plugins.join(" ")
                ),
            };
            return Err(PreFilterRejection {
                rejection: Rejection::unresolvable(reason),
                plugins: std::mem::take(&mut self.plugins),
            });
        }
        self.nodes = Some(left);
        Ok(())
    }
}

impl PreFilterRejection {
    fn new(rejection: Rejection) -> Self {
        Self {
            rejection,
            plugins: Vec::new(),
        }
    }
}
