//! The `resource.k8s.io` group: devices, who offers them, who asks for them.
//!
//! Selectors are CEL and kept as text here. What evaluates them also says what is wrong with them.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod device_class;
pub mod device_taint_rule;
pub mod resource_claim;
pub mod resource_claim_template;
pub mod resource_slice;

mod claim;
mod configuration;
mod form;
mod taint;

const GROUP: &str = "resource.k8s.io";

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Builtin::<device_class::DeviceClass>::new()),
        Arc::new(Builtin::<device_taint_rule::DeviceTaintRule>::new()),
        Arc::new(Builtin::<resource_claim::ResourceClaim>::new()),
        Arc::new(Builtin::<resource_claim_template::ResourceClaimTemplate>::new()),
        Arc::new(Builtin::<resource_slice::ResourceSlice>::new()),
    ]
}
