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

    /// A pod is bound when it is created with a node name, or by a Binding, whose labels the pod gets.
    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let node: &[&str] = match review.subresource {
            None => &[fields::SPEC, fields::NODE_NAME],
            Some("binding") => &[fields::TARGET, fields::NAME],
            Some(_) => return Ok(()),
        };
        let is_pod = review::is_resource_or_subresource(review, "", "pods");
        if review.operation != Operation::Create || !is_pod {
            return Ok(());
        }
        let object = review.object.as_deref();
        let node = object.and_then(|object| object.str_at(node)).unwrap_or_default();
        let nodes = GroupResource::new("", "nodes");
        let Some(node) = review.find(&nodes, &Key::new("", node)) else {
            return Ok(());
        };
        let Some(object) = review.object.as_deref_mut() else {
            return Ok(());
        };
        for label in LABELS {
            if let Some(value) = node.label(label) {
                object.set(&[fields::METADATA, fields::LABELS, label], value);
            }
        }
        Ok(())
    }
}
