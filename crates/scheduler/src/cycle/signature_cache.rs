//! [`SignatureCache`]: filter and score results that pods with the same spec share.
//!
//! Where all plugins depend on the pod's spec and on the node's own row alone, the result for a node holds as long as the
//! node's sequence does. The next pod of the same Deployment then evaluates only the nodes that changed: usually the one
//! that took the pod before it.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Diagnosis, Plan, PlanError, Rotation, Statistics, Unfit, nodes_to_find, select_best};
use crate::framework::{CycleState, Dependency, NodeScore, Profile, Rejection, Score};
use crate::pod_info::{PodInfo, PodSpec};
use crate::state::{ClusterState, NodeIndex};

/// The limit of cached rows over all signatures; the least recently used signature is dropped.
const MAX_ROWS: usize = 1 << 19;

/// The results of one worker.
#[derive(Debug, Default)]
pub struct SignatureCache {
    /// By the address of the spec, which the entry keeps alive.
    entries: HashMap<usize, Signature>,
    uses: u64,
}

/// The results for pods with one spec.
#[derive(Debug)]
struct Signature {
    #[allow(dead_code, reason = "keeps the address of the key in use")]
    spec: Arc<PodSpec>,
    /// What PreFilter and PreScore computed.
    cycle: CycleState,
    validity: Validity,
    rows: Vec<Row>,
    /// The scores of each Score plugin of the profile, by row.
    scores: Vec<Vec<i64>>,
    last_use: u64,
}

/// Facts beyond the rows that PreScore may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Validity {
    images: u64,
    nodes: usize,
}

#[derive(Debug, Clone, Default)]
struct Row {
    /// The sequence of the node when it was evaluated; zero if it was not.
    sequence: u64,
    rejection: Option<Box<Rejection>>,
}

/// The sums of the scores of the feasible nodes, and the normalized scores by position of their plugin.
struct Totals {
    sums: Vec<i64>,
    normalized: Vec<(usize, Vec<NodeScore>)>,
}

/// Finds the best node for the pod, with cached results where they hold.
pub fn plan_cached(
    profile: &Profile,
    pod: &PodInfo,
    cluster: &ClusterState,
    rotation: Rotation,
    cache: &mut SignatureCache,
) -> Result<Plan, PlanError> {
    // Filters count nominated pods, but not the pod itself: its results differ from those of equal pods.
    let is_nominated = !pod.nominated_node.is_empty() || cluster.nominated().node_of(&pod.key).is_some();
    let is_shareable = !is_nominated && profile.dependency(pod, cluster) == Dependency::Node;
    match is_shareable && !cluster.is_empty() {
        false => super::plan(profile, pod, cluster, rotation),
        true => match cache.signature(profile, pod, cluster) {
            Some(signature) => signature.plan(profile, pod, cluster, rotation),
            None => super::plan(profile, pod, cluster, rotation),
        },
    }
}

impl SignatureCache {
    /// The results for the pod's spec; `None` if PreFilter rejects the pod or limits its nodes.
    fn signature(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> Option<&mut Signature> {
        self.uses += 1;
        let key = Arc::as_ptr(&pod.spec).addr();
        let validity = Validity {
            images: cluster.images().sequence(),
            nodes: cluster.len(),
        };
        let is_valid = self
            .entries
            .get(&key)
            .is_some_and(|entry| entry.validity == validity);
        if !is_valid {
            self.entries.remove(&key);
            let signature = Signature::new(profile, pod, cluster, validity)?;
            self.make_space(cluster.nodes().rows());
            self.entries.insert(key, signature);
        }
        let signature = self.entries.get_mut(&key)?;
        signature.last_use = self.uses;
        signature.rows.resize(cluster.nodes().rows(), Row::default());
        for column in &mut signature.scores {
            column.resize(cluster.nodes().rows(), 0);
        }
        Some(signature)
    }

    fn make_space(&mut self, rows: usize) {
        while !self.entries.is_empty() && (self.entries.len() + 1) * rows > MAX_ROWS {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.last_use);
            let Some(key) = oldest.map(|(key, _)| *key) else {
                return;
            };
            self.entries.remove(&key);
        }
    }
}

impl Signature {
    fn new(profile: &Profile, pod: &PodInfo, cluster: &ClusterState, validity: Validity) -> Option<Self> {
        let mut cycle = CycleState::default();
        let limit = profile.run_pre_filter(&mut cycle, pod, cluster).ok()?;
        if limit.nodes.is_some() {
            return None;
        }
        profile
            .run_pre_score(&mut cycle, pod, cluster, cluster.nodes().live())
            .ok()?;
        Some(Self {
            spec: pod.spec.clone(),
            cycle,
            validity,
            rows: Vec::new(),
            scores: vec![Vec::new(); profile.score.len()],
            last_use: 0,
        })
    }

    fn plan(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        cluster: &ClusterState,
        rotation: Rotation,
    ) -> Result<Plan, PlanError> {
        let nodes = cluster.nodes().live();
        let enough = nodes_to_find(nodes.len(), profile.percentage_of_nodes_to_score);
        let mut feasible = Vec::with_capacity(enough);
        let mut evaluated = 0;
        let start = rotation.start % nodes.len();
        let (head, tail) = nodes.split_at(start);
        for node in tail.iter().chain(head) {
            evaluated += 1;
            if self.is_feasible(profile, pod, cluster, *node)? {
                feasible.push(*node);
                if feasible.len() >= enough {
                    break;
                }
            }
        }
        if feasible.is_empty() {
            return Err(self.unfit(cluster));
        }
        let totals = self.total(profile, pod, &feasible);
        let best = select_best(&totals.sums, rotation.turn);
        let node = feasible[best];
        Ok(Plan {
            node,
            node_sequence: cluster.nodes().sequence(node),
            cluster_sequence: cluster.sequence(),
            dependency: Dependency::Node,
            terms_sequence: cluster.existing_terms().sequence(),
            cycle: self.cycle.clone(),
            statistics: Statistics {
                evaluated,
                feasible: feasible.len(),
            },
            scores: self.scores_of(profile, &totals, node, best),
        })
    }

    /// Whether the pod fits the node: from the cache if the node did not change.
    fn is_feasible(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        cluster: &ClusterState,
        index: NodeIndex,
    ) -> Result<bool, PlanError> {
        let row = index.row();
        let sequence = cluster.nodes().sequence(index);
        if self.rows[row].sequence == sequence {
            return Ok(self.rows[row].rejection.is_none());
        }
        let node = cluster.node(index);
        let rejection = match profile.run_filter_with_nominated(&self.cycle, pod, node, cluster) {
            Ok(()) => None,
            Err(rejection) if rejection.is_rejected() => Some(Box::new(rejection)),
            Err(rejection) => return Err(PlanError::Failed(rejection)),
        };
        let fits = rejection.is_none();
        if fits {
            for (position, (plugin, _)) in profile.score.iter().enumerate() {
                if !self.cycle.is_score_skipped(position) {
                    self.scores[position][row] = plugin.score(&self.cycle, pod, node);
                }
            }
        }
        self.rows[row] = Row { sequence, rejection };
        Ok(fits)
    }

    /// The weighted sums of the scores of the nodes.
    fn total(&self, profile: &Profile, pod: &PodInfo, nodes: &[NodeIndex]) -> Totals {
        let mut sums = vec![0; nodes.len()];
        let mut normalized = Vec::new();
        for (position, (plugin, weight)) in profile.score.iter().enumerate() {
            if self.cycle.is_score_skipped(position) {
                continue;
            }
            let column = &self.scores[position];
            if !plugin.normalizes() {
                for (sum, node) in sums.iter_mut().zip(nodes) {
                    *sum += column[node.row()] * weight;
                }
                continue;
            }
            let score = |node: &NodeIndex| NodeScore {
                node: *node,
                score: column[node.row()],
            };
            let mut scores: Vec<NodeScore> = nodes.iter().map(score).collect();
            plugin.normalize(&self.cycle, pod, &mut scores);
            for (sum, score) in sums.iter_mut().zip(&scores) {
                *sum += score.score * weight;
            }
            normalized.push((position, scores));
        }
        Totals { sums, normalized }
    }

    /// The weighted scores of one node by plugin.
    fn scores_of(
        &self,
        profile: &Profile,
        totals: &Totals,
        node: NodeIndex,
        at: usize,
    ) -> Vec<(&'static str, i64)> {
        let plugins = profile.score.iter().enumerate();
        let running = plugins.filter(|(position, _)| !self.cycle.is_score_skipped(*position));
        let score = |(position, (plugin, weight)): (usize, &(Arc<dyn Score>, i64))| {
            let normalized = totals.normalized.iter().find(|(own, _)| *own == position);
            let raw = self.scores[position][node.row()];
            (
                plugin.name(),
                normalized.map_or(raw, |(_, scores)| scores[at].score) * weight,
            )
        };
        running.map(score).collect()
    }

    /// The diagnosis when no node fits: every row was evaluated.
    fn unfit(&self, cluster: &ClusterState) -> PlanError {
        let mut diagnosis = Diagnosis::new(cluster.len());
        for node in cluster.nodes().live() {
            if let Some(rejection) = &self.rows[node.row()].rejection {
                diagnosis.add(*node, (**rejection).clone());
            }
        }
        PlanError::Unfit(Box::new(Unfit {
            evaluated: diagnosis.nodes.len(),
            diagnosis,
            cycle: self.cycle.clone(),
        }))
    }
}
