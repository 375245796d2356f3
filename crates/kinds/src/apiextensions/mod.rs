//! The `apiextensions.k8s.io` group: CustomResourceDefinitions.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind};

pub mod custom_resource_definition;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(BuiltinKind::<
        custom_resource_definition::CustomResourceDefinition,
    >::new())]
}
