//! How many pods of a budget may be disrupted. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use setpoint_runtime::conditions;
use setpoint_values::int_or_percent::RoundingMode;

use crate::api_time;
use crate::int_or_percent;
use crate::pods::Pod;

/// How long a pod may take to be deleted after its eviction was granted. After that it counts as healthy again.
const DELETION_TIMEOUT_SECONDS: i64 = 120;

const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

/// What to write for a budget.
#[derive(Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) status: PodDisruptionBudgetStatus,
    /// Pods whose eviction was granted but that were not deleted in time.
    pub(crate) not_deleted: Vec<String>,
    /// When the next granted eviction times out.
    pub(crate) recheck: Option<Duration>,
}

/// How many pods are expected, where the budget depends on it, and how many must be healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HealthTarget {
    pub(crate) expected: i32,
    pub(crate) healthy: i32,
}

/// Whether the budget depends on the replicas of the pods' controllers.
pub(crate) fn needs_expected_count(budget: &PodDisruptionBudget) -> bool {
    let spec = budget.spec.as_ref();
    spec.is_some_and(|spec| {
        spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
    })
}

/// The health target for so many pods; `scale` is the sum of their controllers' replicas.
pub(crate) fn target(budget: &PodDisruptionBudget, pods: usize, scale: i32) -> HealthTarget {
    let spec = budget.spec.clone().unwrap_or_default();
    let pods = i32::try_from(pods).unwrap_or(i32::MAX);
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => HealthTarget {
            expected: scale,
            healthy: (scale - int_or_percent::scaled_value(Some(most), scale, RoundingMode::Up)).max(0),
        },
        (None, Some(IntOrString::Int(fewest))) => HealthTarget {
            expected: pods,
            healthy: *fewest,
        },
        (None, Some(fewest)) => HealthTarget {
            expected: scale,
            healthy: int_or_percent::scaled_value(Some(fewest), scale, RoundingMode::Up),
        },
        (None, None) => HealthTarget {
            expected: 0,
            healthy: 0,
        },
    }
}

/// The status of a budget with these pods.
pub(crate) fn plan(now: Timestamp, budget: &PodDisruptionBudget, pods: &[Pod], target: HealthTarget) -> Plan {
    let old = budget.status.clone().unwrap_or_default();
    let granted = old.disrupted_pods.clone().unwrap_or_default();
    let (mut disrupted, mut not_deleted, mut recheck) = (BTreeMap::new(), Vec::new(), None);
    for pod in pods.iter().filter(|pod| !pod.is_deleting()) {
        let name = pod.object().key().name();
        let Some(since) = granted.get(name) else { continue };
        match api_time::duration_until(now, api_time::add_seconds(since.0, DELETION_TIMEOUT_SECONDS)) {
            None => not_deleted.push(name.to_owned()),
            Some(left) => {
                recheck = Some(recheck.map_or(left, |own: Duration| own.min(left)));
                disrupted.insert(name.to_owned(), since.clone());
            }
        }
    }
    let is_healthy = |pod: &&Pod| {
        let name = pod.object().key().name();
        !pod.is_deleting() && !disrupted.contains_key(name) && pod.view().is_ready()
    };
    let healthy = i32::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i32::MAX);
    let status = status(now, budget, target, healthy, disrupted);
    Plan {
        status,
        not_deleted,
        recheck,
    }
}

fn status(
    now: Timestamp,
    budget: &PodDisruptionBudget,
    target: HealthTarget,
    healthy: i32,
    disrupted: BTreeMap<String, Time>,
) -> PodDisruptionBudgetStatus {
    let spare = match target.expected > 0 {
        true => (healthy - target.healthy).max(0),
        false => 0,
    };
    let reason = if spare > 0 {
        "SufficientPods"
    } else {
        "InsufficientPods"
    };
    PodDisruptionBudgetStatus {
        conditions: Some(with(
            now,
            budget,
            &budget.status.clone().unwrap_or_default(),
            conditions::condition(DISRUPTION_ALLOWED, spare > 0, reason, ""),
        )),
        current_healthy: Some(healthy),
        desired_healthy: Some(target.healthy),
        disrupted_pods: (!disrupted.is_empty()).then_some(disrupted),
        disruptions_allowed: Some(spare),
        expected_pods: Some(target.expected),
        observed_generation: budget.metadata.generation,
    }
}

/// The status of a budget whose expected pods are unknown: no disruption is allowed.
pub(crate) fn failed(now: Timestamp, budget: &PodDisruptionBudget, why: &str) -> PodDisruptionBudgetStatus {
    let old = budget.status.clone().unwrap_or_default();
    let condition = conditions::condition(DISRUPTION_ALLOWED, false, "SyncFailed", why);
    PodDisruptionBudgetStatus {
        conditions: Some(with(now, budget, &old, condition)),
        disruptions_allowed: Some(0),
        current_healthy: Some(old.current_healthy.unwrap_or(0)),
        desired_healthy: Some(old.desired_healthy.unwrap_or(0)),
        expected_pods: Some(old.expected_pods.unwrap_or(0)),
        ..old
    }
}

fn with(
    now: Timestamp,
    budget: &PodDisruptionBudget,
    old: &PodDisruptionBudgetStatus,
    mut condition: Condition,
) -> Vec<Condition> {
    condition.observed_generation = budget.metadata.generation;
    let mut all = old.conditions.clone().unwrap_or_default();
    conditions::set(&mut all, condition, api_time::whole_seconds(now));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(most: Option<&str>, fewest: Option<&str>, scale: i32, expected: (i32, i32)) {
        let value = |text: &str| match text.parse() {
            Ok(count) => IntOrString::Int(count),
            Err(_) => IntOrString::String(text.to_owned()),
        };
        let mut budget = PodDisruptionBudget::default();
        let spec = budget.spec.get_or_insert_default();
        spec.max_unavailable = most.map(value);
        spec.min_available = fewest.map(value);
        let target = target(&budget, 7, scale);
        assert_eq!((target.expected, target.healthy), expected);
    }

    #[test]
    fn the_health_target_depends_on_the_spec_field() {
        check(Some("1"), None, 5, (5, 4));
        check(Some("30%"), None, 10, (10, 7));
        check(Some("30%"), None, 5, (5, 3));
        check(Some("9"), None, 5, (5, 0));
        check(None, Some("3"), 5, (7, 3));
        check(None, Some("30%"), 5, (5, 2));
        check(None, None, 5, (0, 0));
    }
}
