//! How many pods of a Job run, and which are created and deleted for it.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::plan::{JobState, Plan};
use super::pod::Pod;
use crate::api_time;
use crate::deletion_order;

/// The most pods created or deleted in one reconcile.
const BURST_PODS: usize = 500;
/// The backoff before the first failed pod is replaced; each further failure doubles it.
const BACKOFF_SECONDS: i64 = 10;
const MAX_BACKOFF_SECONDS: i64 = 600;

impl<'a> JobState<'a> {
    /// Plans creations or deletions to reach the right number of active pods.
    pub(super) fn manage(&self, plan: &mut Plan<'a>) {
        plan.delete_uncounted = true;
        if self.is_suspended() {
            plan.delete.clone_from(&self.active);
            return;
        }
        let active = self.active.len();
        let parallelism = self.spec.parallelism.unwrap_or(1);
        let desired = match self.spec.completions {
            None if self.succeeded > 0 => i32::try_from(active).unwrap_or(i32::MAX),
            None => parallelism,
            Some(completions) => (completions - self.succeeded).clamp(0, parallelism.max(0)),
        };
        let desired = usize::try_from(desired).unwrap_or(0);
        plan.delete = self.to_remove(active.saturating_sub(desired));
        plan.delete.truncate(BURST_PODS);
        if !plan.delete.is_empty() {
            return;
        }
        let terminating = match self.replaces_failed_only {
            true => self.pods.iter().filter(|pod| pod.pod.is_terminating()).count(),
            false => 0,
        };
        let lacking = desired.saturating_sub(terminating + active).min(BURST_PODS);
        if lacking > 0 {
            self.create(plan, lacking);
        }
    }

    fn create(&self, plan: &mut Plan<'a>, lacking: usize) {
        if self.failed_indexes.is_none()
            && let Some(left) = self.backoff()
        {
            plan.wake_in(left);
            return;
        }
        let Some(indexes) = self.indexes else {
            plan.create = vec![(None, None); lacking];
            return;
        };
        let taken: BTreeSet<u32> = self
            .pods
            .iter()
            .filter(|pod| pod.pod.is_active() || (self.replaces_failed_only && pod.pod.is_terminating()))
            .filter_map(|pod| self.index(pod))
            .collect();
        let has_failed = |index: u32| {
            self.failed_indexes
                .as_ref()
                .is_some_and(|failed| failed.has(index))
        };
        let free = (0..indexes).filter(|index| {
            !taken.contains(index) && !self.succeeded_indexes.has(*index) && !has_failed(*index)
        });
        let mut soonest: Option<Duration> = None;
        for index in free.take(lacking) {
            let replaced = self.waiting.get(&index).copied();
            let failures = replaced.map_or(0, |pod| pod.view.failures + pod.view.ignored_failures + 1);
            match replaced.and_then(|pod| backoff(self.now, failures, pod.finished())) {
                None => plan.create.push((Some(index), replaced)),
                Some(left) => soonest = Some(soonest.map_or(left, |own| own.min(left))),
            }
        }
        if let (true, Some(soonest)) = (plan.create.is_empty(), soonest) {
            plan.wake_in(soonest);
        }
    }

    /// How long a replacement has to wait, by the failures since the last success.
    fn backoff(&self) -> Option<Duration> {
        let last_success = self
            .pods
            .iter()
            .filter(|pod| pod.has_succeeded())
            .map(Pod::finished)
            .max();
        let failed = self
            .pods
            .iter()
            .filter(|pod| pod.has_failed(self.replaces_failed_only))
            .map(Pod::finished);
        let since: Vec<Timestamp> = failed
            .filter(|end| last_success.is_none_or(|success| *end > success))
            .collect();
        let last = since.iter().max()?;
        backoff(self.now, i32::try_from(since.len()).unwrap_or(i32::MAX), *last)
    }

    /// The active pods to delete, at least so many: those of duplicate or invalid indexes first, then by deletion
    /// order.
    fn to_remove(&self, at_least: usize) -> Vec<&'a Pod> {
        let mut left = self.active.clone();
        left.sort_by(|a, b| self.order(a, b));
        let mut excess = Vec::new();
        if self.indexes.is_some() {
            let mut seen_indexes = BTreeSet::new();
            // The last in the order is kept.
            let mut kept = Vec::new();
            for pod in left.into_iter().rev() {
                match self.index(pod) {
                    Some(index) if seen_indexes.insert(index) => kept.push(pod),
                    _ => excess.push(pod),
                }
            }
            kept.reverse();
            left = kept;
        }
        let more = at_least.saturating_sub(excess.len());
        excess.extend(left.into_iter().take(more));
        excess
    }

    fn order(&self, a: &Pod, b: &Pod) -> Ordering {
        deletion_order::compare(self.now, &a.pod, &b.pod, &|_| 0)
    }
}

/// How long the replacement after so many failures has to wait.
fn backoff(now: Timestamp, failures: i32, last: Timestamp) -> Option<Duration> {
    if failures <= 0 {
        return None;
    }
    let doublings = u32::try_from(failures - 1).unwrap_or(0).min(10);
    let seconds = (BACKOFF_SECONDS << doublings).min(MAX_BACKOFF_SECONDS);
    api_time::duration_until(now, api_time::add_seconds(last, seconds))
}
