//! PodTopologyLabels: a pod bound to a node gets the zone and region labels of that node.

use setpoint_api::{GroupResource, Key, Status};
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::fields;

use crate::chain::Plugin;
use crate::review;

/// The labels that are copied from nodes.
const LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// Copies the labels when a pod is bound.
#[derive(Debug)]
pub(crate) struct PodTopologyLabels;

impl Plugin for PodTopologyLabels {
    fn name(&self) -> &'static str {
        "PodTopologyLabels"
    }

    /// A pod is bound when it is created with a node name, or by a binding.
    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let binds = match review.subresource {
            None => review.operation == Operation::Create,
            Some(subresource) => subresource == "binding",
        };
        if !binds || !review::is_resource_or_subresource(review, "", "pods") {
            return Ok(());
        }
        let pod = review.object.as_deref();
        let node = pod
            .and_then(|pod| pod.str_at(&[fields::SPEC, fields::NODE_NAME]))
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
                pod.set(&[fields::METADATA, fields::LABELS, label], value);
            }
        }
        Ok(())
    }
}
