//! No pod is scheduled to a cordoned node, except those that tolerate its unschedulable taint.

use std::borrow::Cow;

use crate::framework::Filter;
use crate::node_info::{NodeInfo, NodeProperties};
use crate::pod_info::{PodInfo, Toleration};

#[derive(Debug)]
pub(super) struct NodeUnschedulable;

impl Filter for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn fits(&self, pod: &PodInfo, _: &NodeInfo, properties: &NodeProperties) -> bool {
        !properties.unschedulable || pod.tolerates(&unschedulable_taint())
    }

    fn reasons(&self, _: &PodInfo, _: &NodeInfo, _: &NodeProperties) -> Vec<Cow<'static, str>> {
        vec!["node(s) were unschedulable".into()]
    }
}

/// The taint that a cordoned node is taken to have.
fn unschedulable_taint() -> Toleration {
    Toleration {
        key: "node.kubernetes.io/unschedulable".into(),
        effect: "NoSchedule".into(),
        ..Toleration::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(unschedulable: bool, tolerations: &[Toleration], expected: bool) {
        let mut pod = crate::fixtures::pod("p", "");
        pod.tolerations = tolerations.to_vec();
        let properties = NodeProperties {
            unschedulable,
            ..NodeProperties::default()
        };
        let fits = NodeUnschedulable.fits(&pod, &NodeInfo::new("n"), &properties);
        assert_eq!(fits, expected);
    }

    #[test]
    fn a_closed_node_takes_only_pods_that_tolerate_it() {
        check(false, &[], true);
        check(true, &[], false);
        check(true, &[unschedulable_taint()], true);
    }
}
