//! TLS bootstrap: how the agent of a new node gets its identity, as the kubelet and kubeadm do.
//!
//! [`discovery`] finds the CA of the cluster, which the operator has pinned by its hash. With a bootstrap token the agent
//! then requests a [`certificate`] for `system:node:<name>`, which a controller approves and signs; it is stored readable by
//! its owner only, and requested again by the agent itself before it expires.

pub mod certificate;
pub mod discovery;

pub use certificate::NodeCertificate;
pub use discovery::discover;

/// Why a node cannot join.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server rejects a request.
    #[error("the API server rejects the request: {0}")]
    Status(Box<setpoint_api::Status>),
    /// A client of the API server cannot be configured.
    #[error("cannot connect to the API server: {0}")]
    Connect(String),
    /// The cluster's information cannot be used.
    #[error("cannot use the ConfigMap kube-public/cluster-info: {0}")]
    ClusterInfo(String),
    /// The CA is not the one that the operator expects.
    #[error("none of the cluster's CAs has the expected public key {0}")]
    Pin(String),
    /// A certificate or key cannot be used.
    #[error(transparent)]
    Certificate(#[from] setpoint_x509::Error),
    /// The CA bundle cannot be used.
    #[error(transparent)]
    Pki(#[from] setpoint_pki::Error),
    /// The request for a certificate was denied or failed.
    #[error("the certificate request {name} was not granted: {reason}")]
    NotGranted {
        /// The CertificateSigningRequest.
        name: String,
        /// Its condition.
        reason: String,
    },
    /// The certificate cannot be stored.
    #[error("cannot store the node's certificate: {0}")]
    Store(#[from] std::io::Error),
}

impl From<setpoint_api::Status> for Error {
    fn from(status: setpoint_api::Status) -> Self {
        Self::Status(Box::new(status))
    }
}
