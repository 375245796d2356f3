//! The scheduling plugins, one file each, and the list of them.
//!
//! A plugin never looks beyond the pod and the node it is called with. To add one: a file here and a line below.

mod node_affinity;
mod node_resources_fit;
mod node_unschedulable;
mod taint_toleration;

use crate::framework::Profile;

/// The default plugins.
pub fn default_profile() -> Profile {
    Profile {
        filters: vec![
            Box::new(node_unschedulable::NodeUnschedulable),
            Box::new(taint_toleration::TaintToleration),
            Box::new(node_affinity::NodeAffinity),
            Box::new(node_resources_fit::NodeResourcesFit),
        ],
        scores: vec![Box::new(node_resources_fit::NodeResourcesFit)],
    }
}
