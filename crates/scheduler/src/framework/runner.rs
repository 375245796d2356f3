//! Runs the planning plugins of a profile, as upstream's `framework/runtime` does.

use std::sync::Arc;

use super::cycle_state::CycleState;
use super::extension_points::{Dependency, NodeNames, NodeScore, PreFilterResult, PreScoreResult, Score};
use super::profile::Profile;
use super::rejection::{Code, Rejection};
use crate::metrics::{ExtensionPoint, StatusCode, is_sampled_node};
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
        let status = |result: &Result<_, PreFilterRejection>| match result {
            Ok(_) => StatusCode::Success,
            Err(rejected) => StatusCode::Rejected(rejected.rejection.code),
        };
        self.recorder.timed(ExtensionPoint::PreFilter, status, || {
            self.run_all_pre_filters(cycle, pod, cluster)
        })
    }

    fn run_all_pre_filters(
        &self,
        cycle: &mut CycleState,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> Result<NodeLimit, PreFilterRejection> {
        let (mut limit, mut rejected) = (NodeLimit::default(), None);
        for (position, plugin) in self.pre_filter.iter().enumerate() {
            let name = plugin.name();
            match self.run_one_pre_filter(position, cycle, pod, cluster) {
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

    /// Runs PreFilter of the plugin at a position.
    fn run_one_pre_filter(
        &self,
        position: usize,
        cycle: &mut CycleState,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> Result<PreFilterResult, Rejection> {
        let plugin = &self.pre_filter[position];
        let began = self.recorder.start_if(cycle.is_sampled());
        let result = plugin.pre_filter(cycle, pod, cluster);
        let status = match &result {
            Ok(PreFilterResult::Skip) => StatusCode::Skip,
            result => StatusCode::of(result),
        };
        self.recorder
            .observe_plugin(ExtensionPoint::PreFilter, plugin.name(), status, began);
        if status != StatusCode::Skip {
            self.recorder.count(ExtensionPoint::PreFilter, position, 1);
        }
        result
    }

    /// The first rejection of the node by a Filter plugin.
    pub(crate) fn run_filter(
        &self,
        cycle: &CycleState,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> Result<(), Rejection> {
        let is_timed = cycle.is_sampled() && is_sampled_node(node.index);
        for (position, plugin) in self.filter.iter().enumerate() {
            if cycle.is_filter_skipped(position) {
                continue;
            }
            let began = self.recorder.start_if(is_timed);
            let result = plugin.filter(cycle, pod, node);
            if is_timed {
                let (name, status) = (plugin.name(), StatusCode::of(&result));
                self.recorder
                    .observe_plugin(ExtensionPoint::Filter, name, status, began);
            }
            result.map_err(|rejection| {
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
        self.recorder.timed(ExtensionPoint::PreScore, StatusCode::of, || {
            self.run_pre_scores(u64::MAX, cycle, pod, (cluster, nodes))
        })
    }

    /// Runs PreScore of the plugins at these positions.
    fn run_pre_scores(
        &self,
        positions: u64,
        cycle: &mut CycleState,
        pod: &PodInfo,
        (cluster, nodes): (&ClusterState, &[NodeIndex]),
    ) -> Result<(), Rejection> {
        for (position, plugin) in select(&self.pre_score, positions) {
            let name = plugin.name();
            let began = self.recorder.start_if(cycle.is_sampled());
            let result = plugin.pre_score(cycle, pod, cluster, nodes);
            let status = match &result {
                Ok(PreScoreResult::Skip) => StatusCode::Skip,
                result => StatusCode::of(result),
            };
            self.recorder
                .observe_plugin(ExtensionPoint::PreScore, name, status, began);
            match result.map_err(|rejection| rejection.by(name))? {
                PreScoreResult::Skip => self.skip_score(cycle, name),
                _ => self.recorder.count(ExtensionPoint::PreScore, position, 1),
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
        self.recorder
            .count_scores(cycle.skipped_scores(), nodes.len() as u64);
        self.recorder
            .timed(ExtensionPoint::Score, StatusCode::success, || {
                self.run_all_scores(cycle, pod, cluster, nodes)
            })
    }

    fn run_all_scores(
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
                    score: self.run_one_score(&**plugin, cycle, pod, cluster.node(*node)),
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

    /// The score of a node by one plugin.
    pub(crate) fn run_one_score(
        &self,
        plugin: &dyn Score,
        cycle: &CycleState,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> i64 {
        if !cycle.is_sampled() || !is_sampled_node(node.index) {
            return plugin.score(cycle, pod, node);
        }
        let began = self.recorder.start();
        let score = plugin.score(cycle, pod, node);
        self.recorder
            .observe_plugin(ExtensionPoint::Score, plugin.name(), StatusCode::Success, began);
        score
    }

    /// What the results of all plugins for the pod depend on, and the plugins among them that depend on domains.
    pub(crate) fn dependency(&self, pod: &PodInfo, cluster: &ClusterState) -> (Dependency, DomainPlugins) {
        let (mut highest, mut plugins) = (Dependency::Node, DomainPlugins::default());
        if !self.unsigned.is_empty() {
            return (Dependency::Cluster, plugins);
        }
        for plugin in &self.sign {
            let dependency = plugin.dependency(pod, cluster);
            highest = highest.max(dependency);
            if dependency == Dependency::Domains {
                self.add_positions(&mut plugins, plugin.name());
            }
        }
        (highest, plugins)
    }

    fn add_positions(&self, plugins: &mut DomainPlugins, name: &str) {
        let at = |found: Option<usize>| found.map_or(0, |position| 1 << position);
        plugins.pre_filters |= at(self.pre_filter.iter().position(|one| one.name() == name));
        plugins.filters |= at(self.filter.iter().position(|one| one.name() == name));
        plugins.pre_scores |= at(self.pre_score.iter().position(|one| one.name() == name));
        plugins.scores |= at(self.score.iter().position(|(one, _)| one.name() == name));
    }

    /// What the filters of a cycle depend on: on domains only if one of the plugins does not skip the pod.
    pub(crate) fn filter_dependency(
        &self,
        (dependency, plugins): (Dependency, DomainPlugins),
        cycle: &CycleState,
    ) -> Dependency {
        match dependency {
            Dependency::Domains if plugins.filters & !cycle.skipped_filters() == 0 => Dependency::Node,
            other => other,
        }
    }

    /// Runs PreFilter and PreScore of all other plugins than those that depend on domains, whose Filter and Score are
    /// skipped. `None` if a plugin rejects the pod or limits its nodes.
    pub(crate) fn run_shared_pre_steps(
        &self,
        plugins: DomainPlugins,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> Option<CycleState> {
        let mut cycle = CycleState::default();
        for (position, plugin) in select(&self.pre_filter, !plugins.pre_filters) {
            match self.run_one_pre_filter(position, &mut cycle, pod, cluster) {
                Ok(PreFilterResult::AllNodes) => {}
                Ok(PreFilterResult::Skip) => self.skip_filter(&mut cycle, plugin.name()),
                Ok(PreFilterResult::Nodes(_)) | Err(_) => return None,
            }
        }
        let nodes = cluster.nodes().live();
        self.run_pre_scores(!plugins.pre_scores, &mut cycle, pod, (cluster, nodes))
            .ok()?;
        cycle.skip_all(plugins.filters, plugins.scores);
        Some(cycle)
    }

    /// Runs PreFilter of the plugins that depend on domains, in a state that those of all other plugins have written. Returns
    /// whether none of them rejects the pod or limits its nodes.
    pub(crate) fn run_domain_pre_filter(
        &self,
        plugins: DomainPlugins,
        cycle: &mut CycleState,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> bool {
        cycle.unskip(plugins.filters, plugins.scores);
        for (position, plugin) in select(&self.pre_filter, plugins.pre_filters) {
            match self.run_one_pre_filter(position, cycle, pod, cluster) {
                Ok(PreFilterResult::AllNodes) => {}
                Ok(PreFilterResult::Skip) => self.skip_filter(cycle, plugin.name()),
                Ok(PreFilterResult::Nodes(_)) | Err(_) => return false,
            }
        }
        true
    }

    /// The Filter plugin that depends on domains and rejects the node; `None` if all of them accept it.
    pub(crate) fn rejecting_domain_filter(
        &self,
        plugins: DomainPlugins,
        cycle: &CycleState,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> Option<&'static str> {
        let running = plugins.filters & !cycle.skipped_filters();
        let mut plugins = select(&self.filter, running);
        let rejecting = plugins.find(|(_, plugin)| plugin.filter(cycle, pod, node).is_err());
        rejecting.map(|(_, plugin)| plugin.name())
    }

    /// Runs PreScore of the plugins that depend on domains.
    pub(crate) fn run_domain_pre_score(
        &self,
        plugins: DomainPlugins,
        cycle: &mut CycleState,
        pod: &PodInfo,
        nodes: (&ClusterState, &[NodeIndex]),
    ) -> Result<(), Rejection> {
        self.recorder.timed(ExtensionPoint::PreScore, StatusCode::of, || {
            self.run_pre_scores(plugins.pre_scores, cycle, pod, nodes)
        })
    }

    fn skip_score(&self, cycle: &mut CycleState, name: &str) {
        if let Some(position) = self.score.iter().position(|(score, _)| score.name() == name) {
            cycle.skip_score(position);
        }
    }

    fn skip_filter(&self, cycle: &mut CycleState, name: &str) {
        if let Some(position) = self.filter.iter().position(|filter| filter.name() == name) {
            cycle.skip_filter(position);
        }
    }
}

/// Plugins of a profile as sets of positions, by extension point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DomainPlugins {
    pre_filters: u64,
    pub(crate) filters: u64,
    pre_scores: u64,
    pub(crate) scores: u64,
}

/// The plugins at these positions.
fn select<T>(plugins: &[T], positions: u64) -> impl Iterator<Item = (usize, &T)> {
    let numbered = plugins.iter().enumerate();
    numbered.filter(move |(position, _)| positions & (1 << position) != 0)
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
