//! The plan for one set. Pure: values in, a [`Plan`] out.
//!
//! The difference between the active and the desired pods is the whole decision; the rest is how much of it to do at
//! once and, when there are too many, which to delete.

use std::cmp::Ordering;
use std::collections::HashMap;

use jiff::Timestamp;
use setpoint_runtime::Next;

use super::status::Counts;
use super::views::SetView;
use crate::deletion_order;
use crate::pods::{Pod, available_in};

/// The most pods created or deleted in one reconcile; the next one starts after these were observed.
pub(crate) const BURST_REPLICAS: usize = 500;

/// What to do about one set now.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) action: Action<'a>,
    pub(crate) counts: Counts,
    /// A ready pod becomes available after `minReadySeconds`, without any event.
    pub(crate) next: Next,
}

/// What to do about the pods of a set.
#[derive(Debug)]
pub(crate) enum Action<'a> {
    Nothing,
    Create(usize),
    Delete(Vec<&'a Pod>),
}

/// Plans for a set with these pods.
///
/// `related` returns the pods of all sets with the same owner, this one's included: of the pods to delete, those on a
/// node with many of these come first. It is only called then.
pub(crate) fn plan<'a>(
    now: Timestamp,
    set: &SetView,
    pods: &'a [Pod],
    related: impl FnOnce() -> Vec<Pod>,
) -> Plan<'a> {
    let active: Vec<&Pod> = pods.iter().filter(|pod| pod.is_active()).collect();
    Plan {
        counts: Counts::of(now, set, pods),
        next: next_availability(now, set, &active),
        action: action(now, set, active, related),
    }
}

fn action<'a>(
    now: Timestamp,
    set: &SetView,
    active: Vec<&'a Pod>,
    related: impl FnOnce() -> Vec<Pod>,
) -> Action<'a> {
    if set.is_terminating {
        return Action::Nothing;
    }
    match active.len().cmp(&set.replicas) {
        Ordering::Less => Action::Create((set.replicas - active.len()).min(BURST_REPLICAS)),
        Ordering::Equal => Action::Nothing,
        Ordering::Greater => {
            let excess = (active.len() - set.replicas).min(BURST_REPLICAS);
            Action::Delete(victims(now, active, &related(), excess))
        }
    }
}

fn next_availability(now: Timestamp, set: &SetView, active: &[&Pod]) -> Next {
    let waits = active
        .iter()
        .filter_map(|pod| available_in(now, pod, set.min_ready_seconds));
    let next = waits.filter(|wait| !wait.is_zero()).min();
    next.map_or(Next::Done, Next::After)
}

/// The first `excess` pods in the order of deletion.
fn victims<'a>(now: Timestamp, mut active: Vec<&'a Pod>, related: &[Pod], excess: usize) -> Vec<&'a Pod> {
    let mut on_node: HashMap<&str, usize> = HashMap::new();
    for pod in related.iter().filter(|pod| pod.is_active()) {
        *on_node.entry(&pod.view().node).or_default() += 1;
    }
    let crowd = |pod: &Pod| on_node.get(pod.view().node.as_str()).copied().unwrap_or(0);
    active.sort_by(|a, b| deletion_order::compare(now, a, b, &crowd));
    active.truncate(excess);
    active
}

#[cfg(test)]
mod tests;
