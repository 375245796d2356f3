//! Decides what to do about a DaemonSet. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::node_fit::Fit;
use crate::pods::{Phase, Pod, available_in};

/// The most pods created or deleted in one reconcile.
const BURST_PODS: usize = 250;

/// The update strategy of a DaemonSet, in numbers of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UpdateStrategy {
    /// Whether an old pod is replaced only after the user deletes it.
    pub(crate) on_delete: bool,
    /// How many nodes may have two pods during an update (`maxSurge`).
    pub(crate) surge: usize,
    /// How many nodes may lack an available pod during an update (`maxUnavailable`).
    pub(crate) unavailable: usize,
    pub(crate) min_ready_seconds: i64,
}

/// A pod of the set, and whether it is of the newest template.
#[derive(Debug, Clone)]
pub(crate) struct DaemonPod {
    pub(crate) pod: Pod,
    pub(crate) is_new: bool,
}

/// A node, whether it fits the set's pods, and the pods it has.
#[derive(Debug)]
pub(crate) struct NodePods<'a> {
    pub(crate) node: &'a str,
    pub(crate) fit: Fit,
    pub(crate) pods: Vec<&'a DaemonPod>,
}

/// What to do about a set now.
#[derive(Debug, Default)]
pub(crate) struct Plan<'a> {
    /// The nodes to create a pod on.
    pub(crate) create: Vec<&'a str>,
    pub(crate) delete: Vec<&'a Pod>,
    /// The pods in `delete` that have finished, with their nodes.
    pub(crate) ended: Vec<(&'a Pod, &'a str)>,
    pub(crate) counts: Counts,
    /// When a ready pod becomes available, or a failed one may be replaced, without any event.
    pub(crate) recheck: Option<Duration>,
}

/// The node counts of the status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) desired: i32,
    pub(crate) current: i32,
    pub(crate) misscheduled: i32,
    pub(crate) ready: i32,
    pub(crate) available: i32,
    pub(crate) updated: i32,
}

/// Plans for a set with these nodes. `backoff` returns how long a failed pod of a node is kept before it is replaced.
pub(crate) fn plan<'a>(
    now: Timestamp,
    strategy: UpdateStrategy,
    all_node_pods: &[NodePods<'a>],
    backoff: impl Fn(&str) -> Option<Duration>,
) -> Plan<'a> {
    let mut plan = Plan::default();
    for node_pods in all_node_pods {
        plan.plan_node(now, strategy, node_pods, &backoff);
    }
    if !strategy.on_delete {
        match strategy.surge {
            0 => plan.replace(now, strategy, all_node_pods),
            _ => plan.replace_with_surge(now, strategy, all_node_pods),
        }
    }
    plan.create.truncate(BURST_PODS);
    plan.delete.truncate(BURST_PODS);
    plan.count(now, strategy, all_node_pods);
    plan
}

impl<'a> Plan<'a> {
    /// Makes sure that the node has one pod, or none if it does not fit.
    fn plan_node(
        &mut self,
        now: Timestamp,
        strategy: UpdateStrategy,
        node_pods: &NodePods<'a>,
        backoff: &impl Fn(&str) -> Option<Duration>,
    ) {
        let not_deleting = node_pods
            .pods
            .iter()
            .copied()
            .filter(|own| !own.pod.is_deleting());
        if node_pods.fit == Fit::Leave {
            self.delete.extend(not_deleting.map(|own| &own.pod));
            return;
        }
        let (ended, mut running): (Vec<&'a DaemonPod>, Vec<&'a DaemonPod>) =
            not_deleting.partition(|own| own.pod.is_finished());
        for own in ended {
            match backoff(node_pods.node).filter(|_| own.pod.view().phase == Phase::Failed) {
                Some(left) => self.wake_in(left),
                None => {
                    self.delete.push(&own.pod);
                    self.ended.push((&own.pod, node_pods.node));
                }
            }
        }
        if node_pods.pods.is_empty() && node_pods.fit == Fit::Run {
            self.create.push(node_pods.node);
        }
        // The oldest bound pod stays; during a surge also the oldest one of the other template.
        running.sort_by_key(|own| {
            (
                own.pod.view().node.is_empty(),
                own.pod.view().created,
                own.pod.object().uid().to_owned(),
            )
        });
        let mut seen: Vec<bool> = Vec::new();
        for own in running {
            let is_extra = match strategy.surge {
                0 => !seen.is_empty(),
                _ => seen.contains(&own.is_new),
            };
            match is_extra {
                true => self.delete.push(&own.pod),
                false => seen.push(own.is_new),
            }
            self.wake_when_available(now, strategy, &own.pod);
        }
    }

    /// Deletes old pods as far as `maxUnavailable` allows; their replacements are created once they are gone.
    fn replace(&mut self, now: Timestamp, strategy: UpdateStrategy, all_node_pods: &[NodePods<'a>]) {
        let mut unavailable = 0;
        let (mut at_once, mut in_turn) = (Vec::new(), Vec::new());
        for node_pods in all_node_pods
            .iter()
            .filter(|node_pods| node_pods.fit != Fit::Leave)
        {
            if self.is_planned(node_pods) {
                unavailable += usize::from(node_pods.fit == Fit::Run);
                continue;
            }
            match Self::new_and_old(node_pods) {
                (Some(new), None) => unavailable += usize::from(!is_available(now, strategy, new)),
                (None, Some(old)) if !is_available(now, strategy, old) => {
                    unavailable += 1;
                    at_once.push(old);
                }
                (None, Some(old)) => in_turn.push(old),
                _ => unavailable += 1,
            }
        }
        let may_go = strategy.unavailable.saturating_sub(unavailable);
        self.delete
            .extend(at_once.into_iter().chain(in_turn.into_iter().take(may_go)));
    }

    /// Creates new pods beside old ones as far as `maxSurge` allows, and deletes the old one when the new one is
    /// available.
    fn replace_with_surge(
        &mut self,
        now: Timestamp,
        strategy: UpdateStrategy,
        all_node_pods: &[NodePods<'a>],
    ) {
        let mut surging = 0;
        let (mut at_once, mut in_turn) = (Vec::new(), Vec::new());
        for node_pods in all_node_pods.iter().filter(|node_pods| node_pods.fit == Fit::Run) {
            if self.is_planned(node_pods) {
                continue;
            }
            match Self::new_and_old(node_pods) {
                (Some(new), Some(old)) => {
                    surging += 1;
                    if is_available(now, strategy, new) {
                        self.delete.push(old);
                    }
                }
                (None, Some(old)) if !is_available(now, strategy, old) => at_once.push(node_pods.node),
                (None, Some(_)) => in_turn.push(node_pods.node),
                _ => {}
            }
        }
        let may_come = strategy.surge.saturating_sub(surging);
        self.create
            .extend(at_once.into_iter().chain(in_turn.into_iter().take(may_come)));
    }

    /// Whether the plan already creates or deletes a pod of the node, or it has none.
    fn is_planned(&self, node_pods: &NodePods<'a>) -> bool {
        let is_deleted_by_plan = |own: &&DaemonPod| {
            let uid = own.pod.object().uid();
            self.delete.iter().any(|deleted| deleted.object().uid() == uid)
        };
        node_pods.pods.is_empty() || node_pods.pods.iter().any(is_deleted_by_plan)
    }

    /// The pods of the node that are not being deleted: of the newest template and of an older one.
    fn new_and_old(node_pods: &NodePods<'a>) -> (Option<&'a Pod>, Option<&'a Pod>) {
        let is_not_deleting = |own: &&&'a DaemonPod| !own.pod.is_deleting();
        let find = |is_new: bool| {
            node_pods
                .pods
                .iter()
                .filter(is_not_deleting)
                .find(|own| own.is_new == is_new)
                .map(|own| &own.pod)
        };
        (find(true), find(false))
    }

    fn count(&mut self, now: Timestamp, strategy: UpdateStrategy, all_node_pods: &[NodePods<'a>]) {
        for node_pods in all_node_pods {
            let mut pods: Vec<_> = node_pods.pods.clone();
            pods.sort_by_key(|own| own.pod.view().created);
            let counts = &mut self.counts;
            if node_pods.fit != Fit::Run {
                counts.misscheduled += i32::from(!pods.is_empty());
                continue;
            }
            counts.desired += 1;
            let Some(oldest) = pods.first() else { continue };
            counts.current += 1;
            counts.ready += i32::from(oldest.pod.view().is_ready() && !oldest.pod.is_finished());
            counts.available += i32::from(is_available(now, strategy, &oldest.pod));
            counts.updated += i32::from(oldest.is_new);
        }
    }

    fn wake_when_available(&mut self, now: Timestamp, strategy: UpdateStrategy, pod: &Pod) {
        if let Some(left) = available_in(now, pod, strategy.min_ready_seconds).filter(|left| !left.is_zero())
        {
            self.wake_in(left);
        }
    }

    fn wake_in(&mut self, left: Duration) {
        self.recheck = Some(self.recheck.map_or(left, |own| own.min(left)));
    }
}

fn is_available(now: Timestamp, strategy: UpdateStrategy, pod: &Pod) -> bool {
    let is_ready = available_in(now, pod, strategy.min_ready_seconds).is_some_and(|left| left.is_zero());
    is_ready && !pod.is_finished()
}

/// The pods of a set by the node they are bound to or target.
pub(crate) fn by_node(pods: &[(String, DaemonPod)]) -> BTreeMap<&str, Vec<&DaemonPod>> {
    let mut nodes: BTreeMap<&str, Vec<&DaemonPod>> = BTreeMap::new();
    for (node, pod) in pods {
        nodes.entry(node).or_default().push(pod);
    }
    nodes
}

#[cfg(test)]
mod tests;
