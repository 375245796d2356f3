//! Candidates: nodes, and the pods on them that would have to go.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;

use super::budgets::Budgets;
use crate::framework::{CycleState, PostFilterInput, PreemptionCandidate, Rejection};
use crate::pod_info::PodInfo;
use crate::state::{NodeCopy, NodeIndex};

/// Finds the fewest pods of a node whose removal lets the pod fit: all of lower priority are removed, then as many as
/// possible are added again, those with a violated budget first, then by importance.
pub(super) fn find_candidate(
    input: &PostFilterInput<'_>,
    node: NodeIndex,
    budgets: &Budgets,
) -> Result<PreemptionCandidate, Rejection> {
    let node = input.cluster.node(node);
    let mut trial = Trial {
        input,
        cycle: input.cycle.clone(),
        copy: node.to_copy(),
    };
    let pods = node.pods().iter();
    let mut potential: Vec<Arc<PodInfo>> = pods
        .filter(|pod| pod.priority() < input.pod.priority())
        .cloned()
        .collect();
    if potential.is_empty() {
        let reason = "No preemption victims found for incoming pod";
        return Err(Rejection::unresolvable(reason));
    }
    potential.iter().for_each(|pod| trial.remove(pod));
    trial.check()?;
    potential.sort_by_key(|pod| importance(pod));
    let (violating, others) = budgets.split(potential);
    let mut victims = Vec::new();
    let mut violations = 0;
    for pod in violating {
        if !trial.reprieve(&pod) {
            violations += 1;
            victims.push(pod);
        }
    }
    for pod in others {
        if !trial.reprieve(&pod) {
            victims.push(pod);
        }
    }
    victims.sort_by_key(|pod| importance(pod));
    if victims.is_empty() {
        let reason = format!("expected at least one victim pod on node {:?}", node.name());
        return Err(Rejection::error(reason));
    }
    Ok(PreemptionCandidate {
        node: node.name().into(),
        victims,
        violations,
    })
}

/// The best candidate: the fewest violated budgets, then the lowest priority of the most important victim, the lowest sum of
/// priorities, the fewest victims, and the latest start of the most important ones.
pub(super) fn select(candidates: Vec<PreemptionCandidate>) -> Option<PreemptionCandidate> {
    candidates.into_iter().min_by_key(|candidate| {
        let victims = &candidate.victims;
        let highest = victims.first().map_or(i32::MIN, |pod| pod.priority());
        let offset = i64::from(i32::MAX) + 1;
        let sum: i64 = victims.iter().map(|pod| i64::from(pod.priority()) + offset).sum();
        let most_important = victims.iter().filter(|pod| pod.priority() == highest);
        let earliest = most_important.map(|pod| start_time(pod)).min();
        (
            candidate.violations,
            highest,
            sum,
            victims.len(),
            Reverse(earliest),
        )
    })
}

/// A copy of the node and of the cycle state, with pods removed and added.
struct Trial<'a> {
    input: &'a PostFilterInput<'a>,
    cycle: CycleState,
    copy: NodeCopy,
}

impl Trial<'_> {
    fn remove(&mut self, pod: &Arc<PodInfo>) {
        self.input
            .profile
            .remove_pod(&mut self.cycle, self.input.pod, pod, &mut self.copy);
    }

    fn check(&self) -> Result<(), Rejection> {
        let (profile, cluster) = (self.input.profile, self.input.cluster);
        profile.run_filter_with_nominated(&self.cycle, self.input.pod, self.copy.node(), cluster)
    }

    /// Adds a pod again if the preemptor still fits.
    fn reprieve(&mut self, pod: &Arc<PodInfo>) -> bool {
        self.input
            .profile
            .add_pod(&mut self.cycle, self.input.pod, pod, &mut self.copy);
        let fits = self.check().is_ok();
        if !fits {
            self.remove(pod);
        }
        fits
    }
}

/// The order of importance: higher priority first, then the older pod.
fn importance(pod: &PodInfo) -> (Reverse<i32>, Timestamp) {
    (Reverse(pod.priority()), start_time(pod))
}

/// When the pod started; a pod that did not is younger than all others.
fn start_time(pod: &PodInfo) -> Timestamp {
    pod.started.unwrap_or(Timestamp::MAX)
}
