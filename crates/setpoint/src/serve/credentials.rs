//! [`Credentials`]: the keys and CAs by which a cluster recognizes its users, and by which others recognize it.

use std::sync::Arc;

use anyhow::{Context, Result};
use setpoint_apiserver::RequestHeaders;
use setpoint_apiserver::aggregate::ProxyClientIdentity;
use setpoint_apiserver::tls::ClientAuthorities;
use setpoint_auth::Issuer;
use setpoint_auth::authenticate::TokenFile;
use setpoint_controllers::ClusterCertificates;
use setpoint_kinds::bootstrap::RequestHeaderInfo;
use setpoint_pki::CertKeyPair;
use tokio::sync::watch;

/// The keys and CAs of one cluster. No two clusters share any, so no credential works in two of them.
pub(super) struct Credentials {
    /// Signs and verifies the tokens of service accounts.
    pub(super) issuer: Arc<Issuer>,
    /// Static tokens, until the access control takes them.
    pub(super) token_file: Option<TokenFile>,
    /// The CAs of client certificates.
    pub(super) client_authorities: Arc<ClientAuthorities>,
    /// The headers in which authenticating proxies name the user, if there are any.
    pub(super) request_headers: Option<RequestHeaders>,
    /// How aggregated API servers recognize this server and the authenticating proxies.
    pub(super) request_header_info: RequestHeaderInfo,
    /// The client certificate for aggregated API servers.
    pub(super) proxy: CertKeyPair,
    /// The client certificate for kubelets, if the cluster has one.
    pub(super) kubelet_client: Option<CertKeyPair>,
    /// The certificates that controllers use, now and later.
    pub(super) certificates: watch::Receiver<ClusterCertificates>,
}

impl Credentials {
    pub(super) fn proxy_client(&self) -> Result<ProxyClientIdentity> {
        proxy_client(&self.proxy)
    }
}

/// The client certificate for aggregated API servers, in the API server's type.
pub(super) fn proxy_client(proxy: &CertKeyPair) -> Result<ProxyClientIdentity> {
    Ok(ProxyClientIdentity {
        chain: proxy
            .chain()
            .context("cannot use the front-proxy client's certificate")?,
        key: proxy
            .key_der()
            .context("cannot use the front-proxy client's key")?,
    })
}
