//! [`SignatureCache`]: filter and score results that pods with the same spec share.
//!
//! Where plugins depend on the pod's spec and on the node's own row alone, their result for a node holds as long as the
//! node's sequence does. The next pod of the same Deployment then evaluates only the nodes that changed: usually the one
//! that took the pod before it. Plugins that depend on domains, such as PodTopologySpread, run in every cycle, on the nodes
//! that pass the others.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Diagnosis, Plan, PlanError, Rotation, Statistics, Unfit, nodes_to_find, select_best};
use crate::framework::{CycleState, Dependency, DomainPlugins, NodeScore, Profile, Rejection, Score};
use crate::metrics::{ExtensionPoint, FilterTally, StatusCode, is_sampled};
use crate::pod_info::{PodInfo, PodSpec};
use crate::state::{ClusterState, NodeIndex};

/// The limit of cached rows over all signatures; the least recently used signature is dropped.
const MAX_ROWS: usize = 1 << 19;
/// The limit of signatures: in a small cluster, most of their memory is not in rows.
const MAX_SIGNATURES: usize = 1 << 10;

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
    /// What PreFilter and PreScore of the plugins computed that do not depend on domains.
    cycle: CycleState,
    validity: Validity,
    rows: Vec<Row>,
    /// The scores of each Score plugin of the profile, by row.
    scores: Vec<Vec<i64>>,
    /// The weighted sum of those that are not normalized, by row.
    sums: Vec<i64>,
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

/// The pod of a cycle, and what it is planned with.
#[derive(Clone, Copy)]
struct CycleInput<'a> {
    profile: &'a Profile,
    pod: &'a PodInfo,
    cluster: &'a ClusterState,
    dependency: Dependency,
    domain_plugins: DomainPlugins,
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
    let (dependency, domain_plugins) = profile.dependency(pod, cluster);
    if is_nominated || dependency == Dependency::Cluster || cluster.is_empty() {
        return super::plan(profile, pod, cluster, rotation);
    }
    let input = CycleInput {
        profile,
        pod,
        cluster,
        dependency,
        domain_plugins,
    };
    let planned = cache
        .signature(input)
        .and_then(|signature| signature.plan(input, rotation));
    planned.unwrap_or_else(|| super::plan(profile, pod, cluster, rotation))
}

impl SignatureCache {
    /// The results for the pod's spec; `None` if PreFilter rejects the pod or limits its nodes.
    fn signature(&mut self, input: CycleInput<'_>) -> Option<&mut Signature> {
        self.uses += 1;
        let cluster = input.cluster;
        let key = Arc::as_ptr(&input.pod.spec).addr();
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
            let signature = Signature::new(input, validity)?;
            self.make_space(cluster.nodes().rows());
            self.entries.insert(key, signature);
        }
        let signature = self.entries.get_mut(&key)?;
        signature.last_use = self.uses;
        signature.rows.resize(cluster.nodes().rows(), Row::default());
        signature.sums.resize(cluster.nodes().rows(), 0);
        for column in &mut signature.scores {
            column.resize(cluster.nodes().rows(), 0);
        }
        Some(signature)
    }

    fn make_space(&mut self, rows: usize) {
        let most = (MAX_ROWS / rows.max(1)).min(MAX_SIGNATURES);
        while !self.entries.is_empty() && self.entries.len() >= most {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.last_use);
            let Some(key) = oldest.map(|(key, _)| *key) else {
                return;
            };
            self.entries.remove(&key);
        }
    }
}

impl Signature {
    fn new(input: CycleInput<'_>, validity: Validity) -> Option<Self> {
        let CycleInput { profile, pod, .. } = input;
        let cycle = profile.run_shared_pre_steps(input.domain_plugins, pod, input.cluster)?;
        Some(Self {
            spec: pod.spec.clone(),
            cycle,
            validity,
            rows: Vec::new(),
            scores: vec![Vec::new(); profile.score.len()],
            sums: Vec::new(),
            last_use: 0,
        })
    }

    /// Plans the pod; `None` if its plugins cannot share results, or if the reasons of all plugins are needed.
    fn plan(&mut self, input: CycleInput<'_>, rotation: Rotation) -> Option<Result<Plan, PlanError>> {
        let CycleInput {
            profile,
            pod,
            cluster,
            domain_plugins,
            ..
        } = input;
        self.cycle.set_sampled(is_sampled(rotation.turn));
        let mut cycle = self.cycle.clone();
        let recorder = &profile.recorder;
        let runs = recorder.timed(ExtensionPoint::PreFilter, StatusCode::success, || {
            profile.run_domain_pre_filter(domain_plugins, &mut cycle, pod, cluster)
        });
        if !runs {
            return None;
        }
        let dependency = profile.filter_dependency((input.dependency, domain_plugins), &cycle);
        let found = recorder.timed(ExtensionPoint::Filter, StatusCode::success_or_error, || {
            self.find_feasible(input, &cycle, rotation.start)
        });
        let (feasible, evaluated) = match found {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        if feasible.is_empty() {
            return (dependency == Dependency::Node).then(|| Err(self.unfit(cluster)));
        }
        let nodes = (cluster, feasible.as_slice());
        profile
            .run_domain_pre_score(domain_plugins, &mut cycle, pod, nodes)
            .ok()?;
        let totals = recorder.timed(ExtensionPoint::Score, StatusCode::success, || {
            self.total(input, &cycle, &feasible)
        });
        let best = select_best(&totals.sums, rotation.turn);
        let node = feasible[best];
        let scores = self.scores_of(profile, &cycle, &totals, (node, best));
        cycle.end_planning();
        Some(Ok(Plan {
            node,
            node_sequence: cluster.nodes().sequence(node),
            cluster_sequence: cluster.sequence(),
            dependency,
            terms_sequence: cluster.existing_terms().sequence(),
            cycle,
            statistics: Statistics {
                evaluated,
                feasible: feasible.len(),
            },
            scores,
        }))
    }

    /// The first feasible nodes, as many as are enough, and the number of nodes that were looked at.
    fn find_feasible(
        &mut self,
        input: CycleInput<'_>,
        cycle: &CycleState,
        start: usize,
    ) -> Result<(Vec<NodeIndex>, usize), PlanError> {
        let CycleInput { profile, cluster, .. } = input;
        let nodes = cluster.nodes().live();
        let enough = nodes_to_find(nodes.len(), profile.percentage_of_nodes_to_score);
        let mut feasible = Vec::with_capacity(enough);
        let (head, tail) = nodes.split_at(start % nodes.len());
        let (mut shared, mut domains) = (FilterTally::default(), FilterTally::default());
        let mut evaluated = 0;
        for node in tail.iter().chain(head) {
            evaluated += 1;
            if !self.is_feasible(input, *node, &mut shared)? {
                continue;
            }
            let rejected_by = rejecting_domain_filter(input, cycle, *node);
            domains.add(rejected_by);
            if rejected_by.is_none() {
                feasible.push(*node);
                if feasible.len() >= enough {
                    break;
                }
            }
        }
        let recorder = &profile.recorder;
        recorder.count_filters(self.cycle.skipped_filters(), &shared);
        recorder.count_scores(self.cycle.skipped_scores(), shared.passed());
        let running = input.domain_plugins.filters & !cycle.skipped_filters();
        recorder.count_filters(!running, &domains);
        Ok((feasible, evaluated))
    }

    /// Whether the plugins that do not depend on domains accept the node: from the cache if the node did not change.
    fn is_feasible(
        &mut self,
        input: CycleInput<'_>,
        index: NodeIndex,
        tally: &mut FilterTally,
    ) -> Result<bool, PlanError> {
        let CycleInput {
            profile,
            pod,
            cluster,
            ..
        } = input;
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
        tally.add(rejection.as_ref().map(|rejection| rejection.plugin));
        let fits = rejection.is_none();
        if fits {
            self.sums[row] = 0;
            for (position, (plugin, weight)) in profile.score.iter().enumerate() {
                if self.cycle.is_score_skipped(position) {
                    continue;
                }
                let score = profile.run_one_score(&**plugin, &self.cycle, pod, node);
                self.scores[position][row] = score;
                if !plugin.normalizes() {
                    self.sums[row] += score * weight;
                }
            }
        }
        self.rows[row] = Row { sequence, rejection };
        Ok(fits)
    }

    /// The weighted sums of the scores of the nodes.
    fn total(&self, input: CycleInput<'_>, cycle: &CycleState, nodes: &[NodeIndex]) -> Totals {
        let mut sums: Vec<i64> = nodes.iter().map(|node| self.sums[node.row()]).collect();
        let mut normalized = Vec::new();
        for (position, (plugin, weight)) in input.profile.score.iter().enumerate() {
            let is_shared = !self.cycle.is_score_skipped(position);
            if cycle.is_score_skipped(position) || (is_shared && !plugin.normalizes()) {
                continue;
            }
            let one = |node| {
                let node = input.cluster.node(node);
                input.profile.run_one_score(&**plugin, cycle, input.pod, node)
            };
            let score = |node: &NodeIndex| NodeScore {
                node: *node,
                score: match is_shared {
                    true => self.scores[position][node.row()],
                    false => one(*node),
                },
            };
            if !is_shared {
                let count = nodes.len() as u64;
                input
                    .profile
                    .recorder
                    .count(ExtensionPoint::Score, position, count);
            }
            let mut scores: Vec<NodeScore> = nodes.iter().map(score).collect();
            plugin.normalize(cycle, input.pod, &mut scores);
            for (sum, score) in sums.iter_mut().zip(&scores) {
                *sum += score.score * weight;
            }
            normalized.push((position, scores));
        }
        Totals { sums, normalized }
    }

    /// The weighted scores of one node, which is at a position in the totals, by plugin.
    fn scores_of(
        &self,
        profile: &Profile,
        cycle: &CycleState,
        totals: &Totals,
        (node, at): (NodeIndex, usize),
    ) -> Vec<(&'static str, i64)> {
        let plugins = profile.score.iter().enumerate();
        let running = plugins.filter(|(position, _)| !cycle.is_score_skipped(*position));
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
            cluster_sequence: cluster.sequence(),
        }))
    }
}

/// The plugin that rejects the node because of domains, also with the pods that are nominated to it; `None` if none does.
fn rejecting_domain_filter(
    input: CycleInput<'_>,
    cycle: &CycleState,
    index: NodeIndex,
) -> Option<&'static str> {
    let CycleInput {
        profile,
        pod,
        cluster,
        ..
    } = input;
    let node = cluster.node(index);
    let nominated = cluster.nominated();
    match nominated.is_empty() || nominated.on_node(node.name()).is_empty() {
        true => profile.rejecting_domain_filter(input.domain_plugins, cycle, pod, node),
        false => profile
            .run_filter_with_nominated(cycle, pod, node, cluster)
            .err()
            .map(|rejection| rejection.plugin),
    }
}
