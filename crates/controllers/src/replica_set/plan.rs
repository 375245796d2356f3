//! What to do about a set, from what is seen: pure.
//!
//! The difference between the pods that count and the pods that are wanted is the whole decision; the rest is how
//! much of it to do at once and, when there are too many, whose turn it is to go.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use super::status::Counts;
use super::views::{Pod, SetView};

/// The most pods created or deleted in one go; the next go starts after these were seen.
pub(crate) const BURST_REPLICAS: usize = 500;

/// What to do about one set now.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) action: Action<'a>,
    pub(crate) counts: Counts,
    /// When a pod that is ready becomes available by the mere passing of time.
    pub(crate) recheck: Option<Duration>,
}

/// What to do about the pods of a set.
#[derive(Debug)]
pub(crate) enum Action<'a> {
    Nothing,
    Create(usize),
    Delete(Vec<&'a Pod>),
}

/// Decides for a set with these pods.
///
/// `related` gives the pods of all sets under the same owner, this one's among them: when pods must go, those that
/// share a node with many of these go first. It is only asked then.
pub(crate) fn plan<'a>(
    now: Timestamp,
    set: &SetView,
    pods: &'a [Pod],
    related: impl FnOnce() -> Vec<Pod>,
) -> Plan<'a> {
    let active: Vec<&Pod> = pods.iter().filter(|pod| pod.is_active()).collect();
    let counts = Counts::of(now, set, pods);
    let recheck = recheck(now, set, &active);
    let action = match active.len().cmp(&set.replicas) {
        Ordering::Less => Action::Create((set.replicas - active.len()).min(BURST_REPLICAS)),
        Ordering::Equal => Action::Nothing,
        Ordering::Greater => {
            let excess = (active.len() - set.replicas).min(BURST_REPLICAS);
            Action::Delete(victims(now, active, &related(), excess))
        }
    };
    Plan {
        action,
        counts,
        recheck,
    }
}

fn recheck(now: Timestamp, set: &SetView, active: &[&Pod]) -> Option<Duration> {
    let wait = |pod: &&Pod| available_in(now, pod, set.min_ready_seconds);
    active
        .iter()
        .filter_map(wait)
        .filter(|wait| !wait.is_zero())
        .min()
}

/// How long until the pod counts as available; nothing if it is not even ready.
pub(crate) fn available_in(now: Timestamp, pod: &Pod, min_ready_seconds: i64) -> Option<Duration> {
    let ready_since = pod.view().ready_since?;
    let ready_for = now.duration_since(ready_since);
    let left = jiff::SignedDuration::from_secs(min_ready_seconds) - ready_for;
    Some(Duration::try_from(left).unwrap_or_default())
}

fn victims<'a>(now: Timestamp, mut active: Vec<&'a Pod>, related: &[Pod], excess: usize) -> Vec<&'a Pod> {
    let mut on_node: HashMap<&str, usize> = HashMap::new();
    for pod in related.iter().filter(|pod| pod.is_active()) {
        *on_node.entry(&pod.view().node).or_default() += 1;
    }
    let crowd = |pod: &Pod| on_node.get(pod.view().node.as_str()).copied().unwrap_or(0);
    active.sort_by(|a, b| going_first(now, a, b, &crowd));
    active.truncate(excess);
    active
}

/// Orders the pod that should go before the other one.
///
/// The rules in turn: not on a node; earlier phase; not ready; lower deletion cost; more pods of the same owner on
/// its node; ready for less time; more restarts; newer. Times are compared on a logarithmic scale, so that among
/// pods of about the same age the (random) uid decides and not the last second.
fn going_first(now: Timestamp, a: &Pod, b: &Pod, crowd: &impl Fn(&Pod) -> usize) -> Ordering {
    let (left, right) = (a.view(), b.view());
    let is_assigned = |pod: &Pod| !pod.view().node.is_empty();
    let by_age = |left: Timestamp, right: Timestamp| {
        let order = age_rank(now, left).cmp(&age_rank(now, right));
        order.then_with(|| a.object().uid().cmp(b.object().uid()))
    };
    is_assigned(a)
        .cmp(&is_assigned(b))
        .then(left.phase.cmp(&right.phase))
        .then(left.ready_since.is_some().cmp(&right.ready_since.is_some()))
        .then(left.cost.cmp(&right.cost))
        .then_with(|| crowd(b).cmp(&crowd(a)))
        .then_with(|| match (left.ready_since, right.ready_since) {
            (Some(left), Some(right)) if left != right => by_age(left, right),
            _ => Ordering::Equal,
        })
        .then(Reverse(left.restarts).cmp(&Reverse(right.restarts)))
        .then_with(|| match left.created == right.created {
            true => Ordering::Equal,
            false => by_age(left.created, right.created),
        })
}

/// The age on a scale of powers of two; -1 for what is not in the past.
fn age_rank(now: Timestamp, then: Timestamp) -> i32 {
    match u128::try_from(now.duration_since(then).as_nanos()) {
        Ok(age) if age > 0 => age.ilog2().cast_signed(),
        _ => -1,
    }
}

#[cfg(test)]
mod tests;
