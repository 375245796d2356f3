//! [`CandidateCache`]: candidates that preemptors with the same spec share.
//!
//! What can be preempted on a node depends on the pod's spec and on the node's own row, as long as its filters do. The
//! next pod of the same Deployment then evaluates only the nodes that changed: usually the one that the pod before it was
//! nominated to, instead of a hundred nodes.

use std::collections::HashMap;
use std::sync::Arc;

use super::budgets::Budgets;
use super::candidate::find_candidate;
use crate::framework::{Dependency, PostFilterInput, PreemptionCandidate, Rejection};
use crate::pod_info::PodSpec;
use crate::state::NodeIndex;

/// The candidates for pods with one spec, the last one that preempted.
#[derive(Debug, Default)]
pub(super) struct CandidateCache {
    spec: Option<Arc<PodSpec>>,
    /// By node, with the sequence of the node when it was evaluated.
    nodes: HashMap<NodeIndex, (u64, Result<PreemptionCandidate, Rejection>)>,
}

impl CandidateCache {
    /// Prepares the cache for a pod; `None` if its candidates cannot be shared: since they depend on more than the node, on
    /// budgets, or on the nomination of this very pod, which filters do not count for itself.
    pub(super) fn prepare(&mut self, input: &PostFilterInput<'_>, budgets: &Budgets) -> Option<&mut Self> {
        let (pod, cluster) = (input.pod, input.cluster);
        let dependency = input.profile.dependency(pod, cluster);
        let dependency = input.profile.filter_dependency(dependency, input.cycle);
        let is_nominated = !pod.nominated_node.is_empty() || cluster.nominated().node_of(&pod.key).is_some();
        if dependency != Dependency::Node || is_nominated || !budgets.is_empty() {
            return None;
        }
        let is_same = self
            .spec
            .as_ref()
            .is_some_and(|spec| Arc::ptr_eq(spec, &pod.spec));
        if !is_same {
            self.nodes.clear();
            self.spec = Some(pod.spec.clone());
        }
        Some(self)
    }

    /// The candidate on a node.
    pub(super) fn candidate(
        &mut self,
        input: &PostFilterInput<'_>,
        node: NodeIndex,
        budgets: &Budgets,
    ) -> Result<PreemptionCandidate, Rejection> {
        let sequence = input.cluster.nodes().sequence(node);
        match self.nodes.get(&node) {
            Some((evaluated, candidate)) if *evaluated == sequence => candidate.clone(),
            _ => {
                let candidate = find_candidate(input, node, budgets);
                self.nodes.insert(node, (sequence, candidate.clone()));
                candidate
            }
        }
    }

    /// The number of nodes that were evaluated.
    #[cfg(test)]
    pub(super) fn nodes(&self) -> usize {
        self.nodes.len()
    }
}
