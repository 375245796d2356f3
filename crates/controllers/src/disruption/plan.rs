//! How many pods of a budget may be taken away: pure.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use setpoint_runtime::conditions;

use crate::moments;
use crate::pods::Pod;
use crate::portion::{self, Rounding};

/// How long a pod whose eviction was granted has to go. After that it counts as one that stays.
const DELETION_TIMEOUT_SECONDS: i64 = 120;

const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

/// What to say about a budget.
#[derive(Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) status: PodDisruptionBudgetStatus,
    /// Pods that were to go and did not.
    pub(crate) stayed: Vec<String>,
    /// When the next of those that are to go is late.
    pub(crate) recheck: Option<Duration>,
}

/// How many pods there should be, where the budget needs to know, and how many must be healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) expected: i32,
    pub(crate) healthy: i32,
}

/// Whether the budget needs to know how many pods their controllers want.
pub(crate) fn asks_controllers(budget: &PodDisruptionBudget) -> bool {
    let spec = budget.spec.as_ref();
    spec.is_some_and(|spec| {
        spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
    })
}

/// What the budget needs of so many pods; `scale` is how many their controllers want.
pub(crate) fn need(budget: &PodDisruptionBudget, pods: usize, scale: i32) -> Need {
    let spec = budget.spec.clone().unwrap_or_default();
    let pods = i32::try_from(pods).unwrap_or(i32::MAX);
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => Need {
            expected: scale,
            healthy: (scale - portion::of(Some(most), scale, Rounding::Up)).max(0),
        },
        (None, Some(IntOrString::Int(fewest))) => Need {
            expected: pods,
            healthy: *fewest,
        },
        (None, Some(fewest)) => Need {
            expected: scale,
            healthy: portion::of(Some(fewest), scale, Rounding::Up),
        },
        (None, None) => Need {
            expected: 0,
            healthy: 0,
        },
    }
}

/// The status of a budget with these pods.
pub(crate) fn plan(now: Timestamp, budget: &PodDisruptionBudget, pods: &[Pod], need: Need) -> Plan {
    let old = budget.status.clone().unwrap_or_default();
    let granted = old.disrupted_pods.clone().unwrap_or_default();
    let (mut disrupted, mut stayed, mut recheck) = (BTreeMap::new(), Vec::new(), None);
    for pod in pods.iter().filter(|pod| !pod.is_deleting()) {
        let name = pod.object().key().name();
        let Some(since) = granted.get(name) else { continue };
        match moments::until(now, moments::later(since.0, DELETION_TIMEOUT_SECONDS)) {
            None => stayed.push(name.to_owned()),
            Some(left) => {
                recheck = Some(recheck.map_or(left, |own: Duration| own.min(left)));
                disrupted.insert(name.to_owned(), since.clone());
            }
        }
    }
    let is_healthy = |pod: &&Pod| {
        let name = pod.object().key().name();
        !pod.is_deleting() && !disrupted.contains_key(name) && pod.view().ready_since.is_some()
    };
    let healthy = i32::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i32::MAX);
    let status = status(now, budget, need, healthy, disrupted);
    Plan {
        status,
        stayed,
        recheck,
    }
}

fn status(
    now: Timestamp,
    budget: &PodDisruptionBudget,
    need: Need,
    healthy: i32,
    disrupted: BTreeMap<String, Time>,
) -> PodDisruptionBudgetStatus {
    let spare = match need.expected > 0 {
        true => (healthy - need.healthy).max(0),
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
        desired_healthy: Some(need.healthy),
        disrupted_pods: (!disrupted.is_empty()).then_some(disrupted),
        disruptions_allowed: Some(spare),
        expected_pods: Some(need.expected),
        observed_generation: budget.metadata.generation,
    }
}

/// The status of a budget of which nothing is known: nothing may be taken away.
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
    conditions::set(&mut all, condition, moments::whole_seconds(now));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(most: Option<&str>, fewest: Option<&str>, scale: i32, expected: (i32, i32)) {
        let portion = |text: &str| match text.parse() {
            Ok(count) => IntOrString::Int(count),
            Err(_) => IntOrString::String(text.to_owned()),
        };
        let mut budget = PodDisruptionBudget::default();
        let spec = budget.spec.get_or_insert_default();
        spec.max_unavailable = most.map(portion);
        spec.min_available = fewest.map(portion);
        let need = need(&budget, 7, scale);
        assert_eq!((need.expected, need.healthy), expected);
    }

    #[test]
    fn what_a_budget_needs_depends_on_how_it_is_said() {
        check(Some("1"), None, 5, (5, 4));
        check(Some("30%"), None, 10, (10, 7));
        check(Some("30%"), None, 5, (5, 3));
        check(Some("9"), None, 5, (5, 0));
        check(None, Some("3"), 5, (7, 3));
        check(None, Some("30%"), 5, (5, 2));
        check(None, None, 5, (0, 0));
    }
}
