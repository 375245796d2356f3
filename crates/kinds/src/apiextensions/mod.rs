//! The `apiextensions.k8s.io` group: definitions of kinds that are not built in.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod custom_resource_definition;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(Builtin::<
        custom_resource_definition::CustomResourceDefinition,
    >::new())]
}
