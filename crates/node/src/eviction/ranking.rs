//! The order in which pods are evicted: pure.

use std::cmp::{Ordering, Reverse};

use k8s_openapi::api::core::v1;
use setpoint_api::Key;

/// The least priority of pods that are never evicted.
const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;
/// Annotations of pods that come from a file of the node, and of their copies in the API.
const STATIC_POD: &str = "kubernetes.io/config.source";
const MIRROR_POD: &str = "kubernetes.io/config.mirror";

/// A running pod, and what it uses of the resource that is low.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) key: Key,
    pub(super) priority: i32,
    /// `None` if it could not be measured.
    pub(super) usage: Option<i64>,
    pub(super) request: i64,
}

/// Sorts pods so that the first is evicted first: those that could not be measured, those that use more than they
/// requested, those of low priority, those that exceed their request most.
pub(super) fn rank(candidates: &mut [Candidate]) {
    candidates.sort_by(compare);
}

fn compare(a: &Candidate, b: &Candidate) -> Ordering {
    let excess = |one: &Candidate| one.usage.map(|usage| usage - one.request);
    let exceeds = |one: &Candidate| excess(one).is_none_or(|excess| excess > 0);
    let is_unknown = |one: &Candidate| one.usage.is_none();
    Reverse(is_unknown(a))
        .cmp(&Reverse(is_unknown(b)))
        .then_with(|| Reverse(exceeds(a)).cmp(&Reverse(exceeds(b))))
        .then_with(|| a.priority.cmp(&b.priority))
        .then_with(|| Reverse(excess(a)).cmp(&Reverse(excess(b))))
}

/// Whether the node needs the pod: static pods, their mirrors, and those of the highest priorities.
pub(crate) fn is_critical(pod: &v1::Pod) -> bool {
    let annotations = pod.metadata.annotations.iter().flatten();
    let mut annotations = annotations.map(|(name, value)| (name.as_str(), value.as_str()));
    let is_static =
        annotations.any(|(name, value)| name == MIRROR_POD || (name == STATIC_POD && value != "api"));
    let priority = pod.spec.as_ref().and_then(|spec| spec.priority);
    is_static || priority.is_some_and(|priority| priority >= SYSTEM_CRITICAL_PRIORITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pods as name, priority, usage, request, and the order of their names.
    #[track_caller]
    fn check(pods: &[(&str, i32, Option<i64>, i64)], expected: &str) {
        let candidate = |(name, priority, usage, request): &(&str, i32, Option<i64>, i64)| Candidate {
            key: Key::new("default", name),
            priority: *priority,
            usage: *usage,
            request: *request,
        };
        let mut candidates: Vec<_> = pods.iter().map(candidate).collect();
        rank(&mut candidates);
        let names: Vec<&str> = candidates.iter().map(|one| one.key.name()).collect();
        assert_eq!(names.join(" "), expected);
    }

    #[test]
    fn pods_that_exceed_their_requests_come_first() {
        check(
            &[("within", 0, Some(5), 10), ("over", 9, Some(11), 10)],
            "over within",
        );
    }

    #[test]
    fn among_them_the_least_important_and_then_the_largest() {
        let pods = [
            ("vital", 9, Some(90), 0),
            ("small", 0, Some(5), 0),
            ("large", 0, Some(50), 10),
        ];
        check(&pods, "large small vital");
    }

    #[test]
    fn a_pod_that_could_not_be_measured_is_the_first() {
        check(
            &[("over", 0, Some(5), 0), ("unknown", 9, None, 0)],
            "unknown over",
        );
    }
}
