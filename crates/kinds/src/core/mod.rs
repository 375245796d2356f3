//! The core group, `v1`.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind};

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
        Arc::new(BuiltinKind::<binding::Binding>::new()),
        Arc::new(BuiltinKind::<component_status::ComponentStatus>::new()),
        Arc::new(BuiltinKind::<config_map::ConfigMap>::new()),
        Arc::new(BuiltinKind::<endpoints::Endpoints>::new()),
        Arc::new(BuiltinKind::<event::Event>::new()),
        Arc::new(BuiltinKind::<limit_range::LimitRange>::new()),
        Arc::new(BuiltinKind::<namespace::Namespace>::new()),
        Arc::new(BuiltinKind::<node::Node>::new()),
        Arc::new(BuiltinKind::<persistent_volume_claim::PersistentVolumeClaim>::new()),
        Arc::new(BuiltinKind::<persistent_volume::PersistentVolume>::new()),
        Arc::new(BuiltinKind::<pod::Pod>::new()),
        Arc::new(BuiltinKind::<pod_template::PodTemplate>::new()),
        Arc::new(BuiltinKind::<replication_controller::ReplicationController>::new()),
        Arc::new(BuiltinKind::<resource_quota::ResourceQuota>::new()),
        Arc::new(BuiltinKind::<secret::Secret>::new()),
        Arc::new(BuiltinKind::<service_account::ServiceAccount>::new()),
        Arc::new(BuiltinKind::<service::Service>::new()),
    ]
}
