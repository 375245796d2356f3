//! InterPodAffinity: a pod runs in, or keeps away from, topology domains with matching pods; the anti-affinity of existing
//! pods applies to it, too; preferred terms in both directions add to the score (upstream: `plugins/interpodaffinity`).
//!
//! All counts come from the counters of the cluster state: a cycle costs as much as there are terms and nodes, whatever the
//! number of pods. `filter` has the required terms, `score` the preferred ones, `hints` the events that help.

mod filter;
mod hints;
mod score;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::Deserialize;

use super::{PluginArgs, PluginError};
use crate::framework::{Dependency, Handle, Plugin, Registration, Sign};
use crate::pod_info::PodInfo;
use crate::state::ClusterState;

pub(super) const NAME: &str = "InterPodAffinity";

/// The plugin with its arguments (upstream: `InterPodAffinityArgs`).
#[derive(Debug, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct InterPodAffinity {
    /// The weight of a required affinity term of an existing pod that selects the pod.
    hard_pod_affinity_weight: i32,
    ignore_preferred_terms_of_existing_pods: bool,
}

/// The range that upstream accepts.
const MAX_HARD_POD_AFFINITY_WEIGHT: i32 = 100;

pub(super) fn build(args: &PluginArgs, _: &Handle) -> Result<Registration, PluginError> {
    let plugin: InterPodAffinity = args.decode()?;
    let weight = plugin.hard_pod_affinity_weight;
    if !(0..=MAX_HARD_POD_AFFINITY_WEIGHT).contains(&weight) {
        return Err(PluginError(format!(
            "hardPodAffinityWeight: Invalid value: {weight}: not in valid range [0, 100]"
        )));
    }
    let plugin = Arc::new(plugin);
    Ok(Registration {
        pre_filter: Some(plugin.clone()),
        filter: Some(plugin.clone()),
        pre_score: Some(plugin.clone()),
        score: Some(plugin.clone()),
        enqueue: Some(plugin.clone()),
        sign: Some(plugin),
        ..Registration::new(NAME)
    })
}

impl Default for InterPodAffinity {
    fn default() -> Self {
        Self {
            hard_pod_affinity_weight: 1,
            ignore_preferred_terms_of_existing_pods: false,
        }
    }
}

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        NAME
    }
}

impl Sign for InterPodAffinity {
    /// Without terms of its own and of existing pods that select it, the plugin has nothing to decide.
    fn dependency(&self, pod: &PodInfo, cluster: &ClusterState) -> Dependency {
        let mut existing = cluster.existing_terms().matching(pod, cluster.namespaces());
        match pod.spec.affinity.is_empty() && existing.next().is_none() {
            true => Dependency::Node,
            false => Dependency::Domains,
        }
    }
}
