//! The order in which pods are deleted when there are too many.

use std::cmp::{Ordering, Reverse};

use jiff::Timestamp;

use crate::pods::Pod;

/// `Less` if the first pod should be deleted before the second.
///
/// The criteria in order: not bound to a node; earlier phase; not ready; lower deletion cost; more pods of the same
/// owner on its node; ready for less time; more restarts; newer. Times are compared on a logarithmic scale, so that
/// among pods of about the same age the (random) uid decides and not the last second. The uid comes last: used any
/// earlier it would break the total order that sorting needs.
pub(crate) fn compare(now: Timestamp, a: &Pod, b: &Pod, crowd: &impl Fn(&Pod) -> usize) -> Ordering {
    let (left, right) = (a.view(), b.view());
    let is_assigned = |pod: &Pod| !pod.view().node.is_empty();
    let ready_rank = |pod: &Pod| pod.view().ready_since().map(|since| age_rank(now, since));
    is_assigned(a)
        .cmp(&is_assigned(b))
        .then(left.phase.cmp(&right.phase))
        .then(left.is_ready().cmp(&right.is_ready()))
        .then(left.cost.cmp(&right.cost))
        .then_with(|| crowd(b).cmp(&crowd(a)))
        .then_with(|| ready_rank(a).cmp(&ready_rank(b)))
        .then(Reverse(left.restarts).cmp(&Reverse(right.restarts)))
        .then_with(|| age_rank(now, left.created).cmp(&age_rank(now, right.created)))
        .then_with(|| a.object().uid().cmp(b.object().uid()))
}

/// The age on a scale of powers of two; -1 for a time that is not in the past.
fn age_rank(now: Timestamp, then: Timestamp) -> i32 {
    match u128::try_from(now.duration_since(then).as_nanos()) {
        Ok(age) if age > 0 => age.ilog2().cast_signed(),
        _ => -1,
    }
}
