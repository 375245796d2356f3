//! The `certificates.k8s.io` group: certificate requests, signers and trust anchors.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind};

pub mod cluster_trust_bundle;
pub mod pod_certificate_request;
pub mod signing_request;

pub(crate) mod signer_name;

mod pem;

const GROUP: &str = "certificates.k8s.io";

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(BuiltinKind::<signing_request::CertificateSigningRequest>::new()),
        Arc::new(BuiltinKind::<cluster_trust_bundle::ClusterTrustBundle>::new()),
        Arc::new(BuiltinKind::<pod_certificate_request::PodCertificateRequest>::new()),
    ]
}
