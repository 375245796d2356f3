//! The core group, `v1`.

use std::sync::Arc;

use k8s_openapi::api::core::v1;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod config_map;
pub mod event;
pub mod namespace;
pub mod node;
pub mod pod;
pub mod service_account;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Builtin::<v1::ConfigMap>::new()),
        Arc::new(Builtin::<v1::Event>::new()),
        Arc::new(Builtin::<v1::Namespace>::new()),
        Arc::new(Builtin::<v1::Node>::new()),
        Arc::new(Builtin::<v1::Pod>::new()),
        Arc::new(Builtin::<v1::ServiceAccount>::new()),
    ]
}
