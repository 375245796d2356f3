//! The core group, `v1`.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod binding;
pub mod component_status;
pub mod config_map;
pub mod endpoints;
pub mod event;
pub mod limit_range;
pub mod namespace;
pub mod node;
pub mod persistent_volume;
pub mod persistent_volume_claim;
pub mod pod;
pub mod pod_template;
pub mod replication_controller;
pub mod resource_quota;
pub mod secret;
pub mod service;
pub mod service_account;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Builtin::<binding::Binding>::new()),
        Arc::new(Builtin::<component_status::ComponentStatus>::new()),
        Arc::new(Builtin::<config_map::ConfigMap>::new()),
        Arc::new(Builtin::<endpoints::Endpoints>::new()),
        Arc::new(Builtin::<event::Event>::new()),
        Arc::new(Builtin::<limit_range::LimitRange>::new()),
        Arc::new(Builtin::<namespace::Namespace>::new()),
        Arc::new(Builtin::<node::Node>::new()),
        Arc::new(Builtin::<persistent_volume_claim::PersistentVolumeClaim>::new()),
        Arc::new(Builtin::<persistent_volume::PersistentVolume>::new()),
        Arc::new(Builtin::<pod::Pod>::new()),
        Arc::new(Builtin::<pod_template::PodTemplate>::new()),
        Arc::new(Builtin::<replication_controller::ReplicationController>::new()),
        Arc::new(Builtin::<resource_quota::ResourceQuota>::new()),
        Arc::new(Builtin::<secret::Secret>::new()),
        Arc::new(Builtin::<service_account::ServiceAccount>::new()),
        Arc::new(Builtin::<service::Service>::new()),
    ]
}
