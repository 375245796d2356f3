//! The `resource.k8s.io` group: dynamic resource allocation of devices.
//!
//! CEL selectors are compiled when they are written; the scheduler evaluates them.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind};

pub mod device_class;
pub mod device_taint_rule;
pub mod resource_claim;
pub mod resource_claim_template;
pub mod resource_slice;

mod claim;
mod configuration;
mod format;
mod selector;
mod taint;

const GROUP: &str = "resource.k8s.io";

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(BuiltinKind::<device_class::DeviceClass>::new()),
        Arc::new(BuiltinKind::<device_taint_rule::DeviceTaintRule>::new()),
        Arc::new(BuiltinKind::<resource_claim::ResourceClaim>::new()),
        Arc::new(BuiltinKind::<resource_claim_template::ResourceClaimTemplate>::new()),
        Arc::new(BuiltinKind::<resource_slice::ResourceSlice>::new()),
    ]
}
