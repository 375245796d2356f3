//! The rules, each a file.

mod certificates;
mod default_classes;
mod default_toleration_seconds;
mod in_use_protection;
mod limit_ranger;
mod namespace_lifecycle;
mod node_restriction;
mod pod_security;
mod priority;
mod quota;
mod runtime_class;
mod service_account;
mod service_addresses;
mod taint_nodes;
mod volume_resize;

use crate::chain::{Config, Plugin};

/// The rule without which nothing makes sense.
pub(crate) fn least() -> Vec<Box<dyn Plugin>> {
    vec![Box::new(namespace_lifecycle::NamespaceLifecycle)]
}

/// The rules that are on by default, in Kubernetes' order. What gives out addresses comes before, and what counts
/// comes last.
pub(crate) fn standard(config: &Config) -> Vec<Box<dyn Plugin>> {
    let mut plugins: Vec<Box<dyn Plugin>> = vec![
        Box::new(namespace_lifecycle::NamespaceLifecycle),
        Box::new(limit_ranger::LimitRanger),
        Box::new(service_account::ServiceAccount),
    ];
    if config.restrict_nodes {
        plugins.push(Box::new(node_restriction::NodeRestriction));
    }
    let rest: Vec<Box<dyn Plugin>> = vec![
        Box::new(taint_nodes::TaintNodesByCondition),
        Box::new(pod_security::PodSecurity),
        Box::new(priority::Priority),
        Box::new(default_toleration_seconds::DefaultTolerationSeconds),
        Box::new(default_classes::DefaultStorageClass),
        Box::new(in_use_protection::StorageObjectInUseProtection),
        Box::new(volume_resize::PersistentVolumeClaimResize),
        Box::new(runtime_class::RuntimeClass),
        Box::new(certificates::CertificateApproval(config.rights.clone())),
        Box::new(certificates::CertificateSigning(config.rights.clone())),
        Box::new(certificates::CertificateSubjectRestriction),
        Box::new(default_classes::DefaultIngressClass),
        Box::new(service_addresses::ServiceAddresses::new(config)),
        Box::new(quota::ResourceQuota),
    ];
    plugins.extend(rest);
    plugins
}
