//! The admission plugins, one file each.

mod always_pull_images;
mod certificates;
mod default_classes;
mod default_toleration_seconds;
mod in_use_protection;
mod limit_ranger;
mod namespace_lifecycle;
mod node_restriction;
mod owner_references;
mod pod_security;
mod policy;
mod priority;
mod quota;
mod resource_claim_access;
mod runtime_class;
mod service_account;
mod service_addresses;
mod taint_nodes;
mod topology_labels;
mod volume_resize;
pub(crate) mod webhook;

use crate::chain::{Config, Plugin};

/// The plugins of Kubernetes that are not built here.
pub(crate) const NOT_BUILT: &[&str] = &[
    "AlwaysAdmit",
    "AlwaysDeny",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NodeDeclaredFeatureValidator",
    "PodGroupProtection",
    "PodNodeSelector",
    "PodResizeValidator",
    "PodTolerationRestriction",
];

/// The plugin that every server needs.
pub(crate) fn minimal() -> Vec<Box<dyn Plugin>> {
    vec![Box::new(namespace_lifecycle::NamespaceLifecycle)]
}

/// All plugins in Kubernetes' order, each with whether it is on by default. Address allocation comes between the mutating
/// and the validating webhooks, which see the addresses; the quota comes last.
pub(crate) fn all(config: &Config) -> Vec<(Box<dyn Plugin>, bool)> {
    let access = || config.access.clone();
    vec![
        (Box::new(namespace_lifecycle::NamespaceLifecycle), true),
        (Box::new(limit_ranger::LimitRanger), true),
        (Box::new(service_account::ServiceAccount), true),
        (
            Box::new(node_restriction::NodeRestriction(access())),
            config.node_restriction,
        ),
        (
            Box::new(taint_nodes::TaintNodesByCondition {
                taints_ready_nodes: config.taints_ready_nodes,
            }),
            true,
        ),
        (Box::new(always_pull_images::AlwaysPullImages), false),
        (Box::new(pod_security::PodSecurity), true),
        (Box::new(priority::Priority), true),
        (
            Box::new(default_toleration_seconds::DefaultTolerationSeconds),
            true,
        ),
        (Box::new(default_classes::DefaultStorageClass), true),
        (Box::new(in_use_protection::StorageObjectInUseProtection), true),
        (
            Box::new(owner_references::OwnerReferencesPermissionEnforcement(access())),
            false,
        ),
        (Box::new(volume_resize::PersistentVolumeClaimResize), true),
        (Box::new(runtime_class::RuntimeClass), true),
        (Box::new(certificates::CertificateApproval(access())), true),
        (Box::new(certificates::CertificateSigning(access())), true),
        (Box::new(certificates::ClusterTrustBundleAttest(access())), true),
        (Box::new(certificates::PodCertificateSigning(access())), true),
        (Box::new(certificates::CertificateSubjectRestriction), true),
        (Box::new(default_classes::DefaultIngressClass), true),
        (Box::new(topology_labels::PodTopologyLabels), true),
        (
            Box::new(resource_claim_access::ResourceClaimAccess(access())),
            true,
        ),
        (
            Box::new(policy::mutating::MutatingAdmissionPolicy(access())),
            true,
        ),
        (
            Box::new(webhook::MutatingAdmissionWebhook::new(config.webhooks.clone())),
            true,
        ),
        (Box::new(service_addresses::ServiceAddresses::new(config)), true),
        (
            Box::new(policy::validating::ValidatingAdmissionPolicy(access())),
            true,
        ),
        (
            Box::new(webhook::ValidatingAdmissionWebhook::new(config.webhooks.clone())),
            true,
        ),
        (Box::new(quota::ResourceQuota), true),
    ]
}
