//! Nothing new goes to a node that is closed (cordoned), except pods that tolerate just that.

use std::borrow::Cow;

use crate::framework::Filter;
use crate::node_info::{NodeInfo, Offer};
use crate::pod_info::{PodInfo, Toleration};

#[derive(Debug)]
pub(super) struct NodeUnschedulable;

impl Filter for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn fits(&self, pod: &PodInfo, _: &NodeInfo, offer: &Offer) -> bool {
        !offer.unschedulable || pod.tolerates(&closed())
    }

    fn reasons(&self, _: &PodInfo, _: &NodeInfo, _: &Offer) -> Vec<Cow<'static, str>> {
        vec!["node(s) were unschedulable".into()]
    }
}

/// The taint that a closed node is taken to have.
fn closed() -> Toleration {
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
        let offer = Offer {
            unschedulable,
            ..Offer::default()
        };
        let fits = NodeUnschedulable.fits(&pod, &NodeInfo::new("n"), &offer);
        assert_eq!(fits, expected);
    }

    #[test]
    fn a_closed_node_takes_only_pods_that_tolerate_it() {
        check(false, &[], true);
        check(true, &[], false);
        check(true, &[closed()], true);
    }
}
