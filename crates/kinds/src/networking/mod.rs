//! The `networking.k8s.io` group: who may reach what, and by which address.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod ingress;
pub mod ingress_class;
pub mod ip_address;
pub mod network_policy;
pub mod service_cidr;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Builtin::<ingress_class::IngressClass>::new()),
        Arc::new(Builtin::<ingress::Ingress>::new()),
        Arc::new(Builtin::<ip_address::IpAddress>::new()),
        Arc::new(Builtin::<network_policy::NetworkPolicy>::new()),
        Arc::new(Builtin::<service_cidr::ServiceCidr>::new()),
    ]
}
