//! [`Budgets`]: the PodDisruptionBudgets, by which victims are selected that violate none.

use std::collections::BTreeMap;
use std::sync::Arc;

use compact_str::CompactString;
use serde::Deserialize;
use serde::de::IgnoredAny;
use setpoint_runtime::Cache;

use crate::pod_info::PodInfo;
use crate::pod_info::selector::{PodSelector, RawSelector};

/// All budgets, at the time of a preemption.
#[derive(Debug, Default)]
pub(super) struct Budgets(Vec<Budget>);

#[derive(Debug, Clone)]
struct Budget {
    namespace: CompactString,
    selector: PodSelector,
    allowed: i32,
    /// Pods whose disruption is already counted.
    disrupted: Vec<CompactString>,
}

/// The JSON of a PodDisruptionBudget, as far as it matters here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawBudget {
    spec: RawSpec,
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSpec {
    selector: Option<RawSelector>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawStatus {
    disruptions_allowed: i32,
    disrupted_pods: BTreeMap<CompactString, IgnoredAny>,
}

impl Budgets {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads all budgets; without a cache there are none.
    pub(super) fn read(cache: Option<&Cache>) -> Self {
        let Some(cache) = cache else {
            return Self::default();
        };
        let snapshot = cache.snapshot();
        let budgets = snapshot.iter().filter_map(|object| {
            let raw: RawBudget = object.decode().ok()?;
            Some(Budget {
                namespace: object.key().namespace().into(),
                selector: PodSelector::from_raw(raw.spec.selector),
                allowed: raw.status.disruptions_allowed,
                disrupted: raw.status.disrupted_pods.into_keys().collect(),
            })
        });
        Self(budgets.collect())
    }

    /// Separates the pods whose removal, in this order, would violate a budget.
    pub(super) fn split(&self, pods: Vec<Arc<PodInfo>>) -> (Vec<Arc<PodInfo>>, Vec<Arc<PodInfo>>) {
        let mut budgets = self.0.clone();
        pods.into_iter().partition(|pod| {
            let own = budgets.iter_mut().filter(|budget| budget.covers(pod));
            own.fold(false, |violates, budget| {
                budget.allowed -= 1;
                violates || budget.allowed < 0
            })
        })
    }
}

impl Budget {
    /// Whether removing the pod counts against the budget. An empty selector covers no pod here, as upstream has it.
    fn covers(&self, pod: &PodInfo) -> bool {
        self.namespace == pod.namespace()
            && !pod.labels.is_empty()
            && !self.selector.is_everything()
            && self.selector.matches(&pod.labels)
            && !self.disrupted.iter().any(|name| name == pod.key.name())
    }
}

#[cfg(test)]
impl Budgets {
    /// One budget for the pods with a label.
    pub(super) fn for_tests(label: &str, value: &str, allowed: i32) -> Self {
        let requirements = setpoint_api::selector::LabelSelector::equals(label, value).requirements;
        Self(vec![Budget {
            namespace: "default".into(),
            selector: PodSelector::new(requirements),
            allowed,
            disrupted: Vec::new(),
        }])
    }
}
