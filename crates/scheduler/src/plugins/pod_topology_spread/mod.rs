//! PodTopologySpread: the pods that a constraint selects are spread over the domains of a topology key: strictly
//! (`DoNotSchedule`) or as a preference (`ScheduleAnyway`). Pods of a Service or a workload have default preferences
//! (upstream: `plugins/podtopologyspread`).
//!
//! Pods are counted by the counters of the cluster state, and the domains that count are shared by all pods of one spec, so
//! that the cost of a cycle grows neither with the number of pods nor, before the filter, with that of the nodes.
//! `constraint` resolves the constraints of a pod, `eligibility` has the domains that count, `filter` and `score` apply
//! them, `hints` has the events that help.

mod constraint;
mod defaults;
mod eligibility;
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
use crate::pod_info::affinity::{RawSpreadConstraint, TopologySpreadConstraint};
use crate::state::ClusterState;
use defaults::Workloads;
use eligibility::EligibilityCache;

pub(super) const NAME: &str = "PodTopologySpread";

/// The plugin.
#[derive(Debug)]
pub(super) struct PodTopologySpread {
    /// The constraints of pods without any.
    defaults: Vec<TopologySpreadConstraint>,
    /// Whether they are the built-in ones: these also score nodes without all topology keys.
    is_system_defaulted: bool,
    workloads: Workloads,
    eligibility: EligibilityCache,
}

/// Its arguments (upstream: `PodTopologySpreadArgs`).
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodTopologySpreadArgs {
    default_constraints: Vec<RawSpreadConstraint>,
    defaulting_type: DefaultingType,
}

#[derive(Default, Deserialize, PartialEq, Eq)]
enum DefaultingType {
    #[default]
    System,
    List,
}

pub(super) fn build(args: &PluginArgs, handle: &Handle) -> Result<Registration, PluginError> {
    let args: PodTopologySpreadArgs = args.decode()?;
    let is_system_defaulted = args.defaulting_type == DefaultingType::System;
    if is_system_defaulted && !args.default_constraints.is_empty() {
        return Err(PluginError(
            "defaultingType: Invalid value: \"System\": when .defaultConstraints are not empty".to_owned(),
        ));
    }
    let defaults = match is_system_defaulted {
        true => constraint::system_defaults(),
        false => args.default_constraints.into_iter().map(Into::into).collect(),
    };
    let plugin = Arc::new(PodTopologySpread {
        defaults,
        is_system_defaulted,
        workloads: Workloads::new(handle),
        eligibility: EligibilityCache::default(),
    });
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

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        NAME
    }
}

impl Sign for PodTopologySpread {
    /// Whether defaults apply to a pod depends on its workload, too, which PreFilter and PreScore look for.
    fn dependency(&self, pod: &PodInfo, _: &ClusterState) -> Dependency {
        match pod.spec.topology_spread_constraints.is_empty() && self.defaults.is_empty() {
            true => Dependency::Node,
            false => Dependency::Domains,
        }
    }
}
