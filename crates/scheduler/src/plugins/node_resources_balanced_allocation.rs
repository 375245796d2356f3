//! NodeResourcesBalancedAllocation: nodes score higher on which the pod makes the shares of the resources in use more
//! equal.

use std::sync::Arc;

use serde::Deserialize;

use super::resource_allocation::{
    Allocation, RequestKind, ResourceSpec, allocation, default_resources, pod_request,
};
use super::{PluginArgs, PluginError};
use crate::framework::{
    CycleState, Dependency, Handle, MAX_SCORE, Plugin, PreScore, PreScoreResult, Registration, Rejection,
    Score, Sign,
};
use crate::pod_info::PodInfo;
use crate::state::{ClusterState, NodeIndex, NodeRef};

#[derive(Debug)]
pub(super) struct BalancedAllocation {
    resources: Vec<ResourceSpec>,
}

/// Its arguments (upstream: `NodeResourcesBalancedAllocationArgs`).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BalancedAllocationArgs {
    resources: Vec<ResourceSpec>,
}

pub(super) fn build(args: &PluginArgs, _: &Handle) -> Result<Registration, PluginError> {
    let args: BalancedAllocationArgs = args.decode()?;
    let resources = match args.resources.is_empty() {
        true => default_resources(),
        false => args.resources,
    };
    let plugin = Arc::new(BalancedAllocation { resources });
    Ok(Registration {
        pre_score: Some(plugin.clone()),
        score: Some(plugin.clone()),
        sign: Some(plugin),
        ..Registration::new("NodeResourcesBalancedAllocation")
    })
}

impl Plugin for BalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }
}

impl PreScore for BalancedAllocation {
    fn pre_score(
        &self,
        _: &mut CycleState,
        pod: &PodInfo,
        _: &ClusterState,
        _: &[NodeIndex],
    ) -> Result<PreScoreResult, Rejection> {
        let mut resources = self.resources.iter();
        let is_best_effort =
            resources.all(|resource| pod_request(pod, &resource.name, RequestKind::Actual) == 0);
        Ok(if is_best_effort {
            PreScoreResult::Skip
        } else {
            PreScoreResult::Score
        })
    }
}

impl Score for BalancedAllocation {
    fn score(&self, _: &CycleState, pod: &PodInfo, node: NodeRef<'_>) -> i64 {
        let amounts: Vec<Allocation> = self
            .resources
            .iter()
            .filter_map(|resource| allocation(pod, node, &resource.name, RequestKind::Actual))
            .collect();
        let with = balance(amounts.iter().map(|one| fraction(one.requested, one.allocatable)));
        let without = balance(amounts.iter().map(|one| fraction(one.allocated, one.allocatable)));
        MAX_SCORE / 2 + (MAX_SCORE / 2 + with - without) / 2
    }
}

impl Sign for BalancedAllocation {
    fn dependency(&self, _: &PodInfo, _: &ClusterState) -> Dependency {
        Dependency::Node
    }
}

fn fraction(used: i64, all: i64) -> f64 {
    (used as f64 / all as f64).min(1.0)
}

/// How equal the shares are: the best score less their standard deviation.
fn balance(fractions: impl Iterator<Item = f64> + Clone) -> i64 {
    let count = fractions.clone().count();
    let deviation = match count {
        0 | 1 => 0.0,
        2 => {
            let shares: Vec<f64> = fractions.collect();
            ((shares[0] - shares[1]) / 2.0).abs()
        }
        _ => {
            let mean = fractions.clone().sum::<f64>() / count as f64;
            let squares: f64 = fractions.map(|share| (share - mean) * (share - mean)).sum();
            (squares / count as f64).sqrt()
        }
    };
    ((1.0 - deviation) * MAX_SCORE as f64) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(fractions: &[f64], expected: i64) {
        assert_eq!(balance(fractions.iter().copied()), expected);
    }

    #[test]
    fn equal_shares_are_best() {
        check(&[], 100);
        check(&[0.3], 100);
        check(&[0.5, 0.5], 100);
        check(&[1.0, 0.0], 50);
        check(&[0.25, 0.75], 75);
        check(&[0.0, 0.5, 1.0], 59);
    }
}
