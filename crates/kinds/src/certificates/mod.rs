//! The `certificates.k8s.io` group: who asks for certificates, who signs them, whom to trust.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod cluster_trust_bundle;
pub mod pod_certificate_request;
pub mod signing_request;

pub(crate) mod signer_name;

mod pem;

const GROUP: &str = "certificates.k8s.io";

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Builtin::<signing_request::CertificateSigningRequest>::new()),
        Arc::new(Builtin::<cluster_trust_bundle::ClusterTrustBundle>::new()),
        Arc::new(Builtin::<pod_certificate_request::PodCertificateRequest>::new()),
    ]
}
