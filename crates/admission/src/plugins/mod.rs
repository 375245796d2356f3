//! The rules, each a file.

mod namespace_lifecycle;

use crate::chain::Plugin;

/// The rules that are on by default, in Kubernetes' order.
pub(crate) fn all() -> Vec<Box<dyn Plugin>> {
    vec![Box::new(namespace_lifecycle::NamespaceLifecycle)]
}
