//! PodTopologyLabels: a pod that is on a node has the zone and the region of that node among its labels.

use setpoint_api::{GroupResource, Key, Status};
use setpoint_registry::{Operation, Review};

use crate::about;
use crate::chain::Plugin;

/// What is copied from nodes.
const LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// The rule of pods that get a node.
#[derive(Debug)]
pub(crate) struct PodTopologyLabels;

impl Plugin for PodTopologyLabels {
    fn name(&self) -> &'static str {
        "PodTopologyLabels"
    }

    /// A pod gets its node as it is created, or by a binding.
    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let places = match review.subresource {
            None => review.operation == Operation::Create,
            Some(part) => part == "binding",
        };
        if !places || !about::is_any(review, "", "pods") {
            return Ok(());
        }
        let pod = review.object.as_deref();
        let node = pod
            .and_then(|pod| pod.str_at(&["spec", "nodeName"]))
            .unwrap_or_default();
        let nodes = GroupResource::new("", "nodes");
        let Some(node) = review.find(&nodes, &Key::new("", node)) else {
            return Ok(());
        };
        let Some(pod) = review.object.as_deref_mut() else {
            return Ok(());
        };
        for label in LABELS {
            if let Some(value) = node.label(label) {
                pod.set(&["metadata", "labels", label], value);
            }
        }
        Ok(())
    }
}
