//! How many pods of a Job run, and which come and go for it.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::plan::{Plan, Seen};
use super::pod::Pod;
use crate::moments;
use crate::victims::going_first;

/// The most pods that are created or deleted in one go.
const MOST_PODS: usize = 500;
/// How long the first failed pod is waited for before its replacement; each further one doubles it.
const BACKOFF_SECONDS: i64 = 10;
const MOST_BACKOFF_SECONDS: i64 = 600;

impl<'a> Seen<'a> {
    /// Makes the number of active pods right.
    pub(super) fn manage(&self, plan: &mut Plan<'a>) {
        plan.uncounted_go = true;
        if self.is_suspended() {
            plan.delete.clone_from(&self.active);
            return;
        }
        let active = self.active.len();
        let parallelism = self.spec.parallelism.unwrap_or(1);
        let wanted = match self.spec.completions {
            None if self.succeeded > 0 => i32::try_from(active).unwrap_or(i32::MAX),
            None => parallelism,
            Some(completions) => (completions - self.succeeded).clamp(0, parallelism.max(0)),
        };
        let wanted = usize::try_from(wanted).unwrap_or(0);
        plan.delete = self.to_remove(active.saturating_sub(wanted));
        plan.delete.truncate(MOST_PODS);
        if !plan.delete.is_empty() {
            return;
        }
        let terminating = match self.waits_for_the_end {
            true => self.pods.iter().filter(|pod| pod.pod.is_terminating()).count(),
            false => 0,
        };
        let lacking = wanted.saturating_sub(terminating + active).min(MOST_PODS);
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
            .filter(|pod| pod.pod.is_active() || (self.waits_for_the_end && pod.pod.is_terminating()))
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
            .filter(|pod| pod.has_failed(self.waits_for_the_end))
            .map(Pod::finished);
        let since: Vec<Timestamp> = failed
            .filter(|end| last_success.is_none_or(|success| *end > success))
            .collect();
        let last = since.iter().max()?;
        backoff(self.now, i32::try_from(since.len()).unwrap_or(i32::MAX), *last)
    }

    /// The active pods that go, at least so many: those of doubled or unknown indexes, then whose turn it is.
    fn to_remove(&self, at_least: usize) -> Vec<&'a Pod> {
        let mut left = self.active.clone();
        left.sort_by(|a, b| self.order(a, b));
        let mut going = Vec::new();
        if self.indexes.is_some() {
            let mut seen = BTreeSet::new();
            // The last in the order is the one that stays.
            let mut kept = Vec::new();
            for pod in left.into_iter().rev() {
                match self.index(pod) {
                    Some(index) if seen.insert(index) => kept.push(pod),
                    _ => going.push(pod),
                }
            }
            kept.reverse();
            left = kept;
        }
        let more = at_least.saturating_sub(going.len());
        going.extend(left.into_iter().take(more));
        going
    }

    fn order(&self, a: &Pod, b: &Pod) -> Ordering {
        going_first(self.now, &a.pod, &b.pod, &|_| 0)
    }
}

/// How long the replacement after so many failures has to wait.
fn backoff(now: Timestamp, failures: i32, last: Timestamp) -> Option<Duration> {
    if failures <= 0 {
        return None;
    }
    let doublings = u32::try_from(failures - 1).unwrap_or(0).min(10);
    let seconds = (BACKOFF_SECONDS << doublings).min(MOST_BACKOFF_SECONDS);
    moments::until(now, moments::later(last, seconds))
}
