//! The `networking.k8s.io` group: ingresses, network policies and service addresses.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind};

pub mod ingress;
pub mod ingress_class;
pub mod ip_address;
pub mod network_policy;
pub mod service_cidr;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(BuiltinKind::<ingress_class::IngressClass>::new()),
        Arc::new(BuiltinKind::<ingress::Ingress>::new()),
        Arc::new(BuiltinKind::<ip_address::IpAddress>::new()),
        Arc::new(BuiltinKind::<network_policy::NetworkPolicy>::new()),
        Arc::new(BuiltinKind::<service_cidr::ServiceCidr>::new()),
    ]
}
