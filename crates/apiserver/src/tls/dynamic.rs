//! [`DynamicTls`]: the TLS configuration of a running server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use rustls::ServerConfig;

use super::{ClientAuthorities, Error, Identity, server_config};
use crate::metrics::{MetricsSource, TextEncoder};

/// The TLS configuration of a server, which its owner replaces when a certificate is renewed. New handshakes use the new
/// one; connections keep what they have negotiated.
#[derive(Debug)]
pub struct DynamicTls {
    config: RwLock<Arc<ServerConfig>>,
    client_authorities: Arc<ClientAuthorities>,
    names_authorities: bool,
    failed_handshakes: AtomicU64,
}

impl DynamicTls {
    pub fn new(identity: Identity) -> Result<Arc<Self>, Error> {
        Self::build(identity, true)
    }

    /// TLS of a server that hosts further clusters, each with its own CA. It does not name the accepted CAs in the
    /// handshake, so that clients send their certificate whichever cluster it is for.
    pub fn for_hosted_clusters(identity: Identity) -> Result<Arc<Self>, Error> {
        Self::build(identity, false)
    }

    fn build(identity: Identity, names_authorities: bool) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self {
            client_authorities: ClientAuthorities::new(&identity.client_ca, &identity.proxy_ca)?,
            config: RwLock::new(server_config(identity, names_authorities)?),
            names_authorities,
            failed_handshakes: AtomicU64::new(0),
        }))
    }

    /// Replaces the certificates. If they cannot be used, the previous ones stay.
    pub fn replace(&self, identity: Identity) -> Result<(), Error> {
        let (client_ca, proxy_ca) = (identity.client_ca.clone(), identity.proxy_ca.clone());
        let config = server_config(identity, self.names_authorities)?;
        self.client_authorities.replace(&client_ca, &proxy_ca)?;
        *self.config.write() = config;
        Ok(())
    }

    /// The CAs of client certificates; they are replaced with the certificates.
    pub fn client_authorities(&self) -> Arc<ClientAuthorities> {
        self.client_authorities.clone()
    }

    /// The configuration for a new connection.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.config.read().clone()
    }

    pub(crate) fn count_failed_handshake(&self) {
        self.failed_handshakes.fetch_add(1, Ordering::Relaxed);
    }
}

impl MetricsSource for DynamicTls {
    fn write(&self, text: &mut TextEncoder) {
        const NAME: &str = "apiserver_tls_handshake_errors_total";
        text.family(
            NAME,
            "counter",
            "Connections that failed before a request was read.",
        );
        text.sample(NAME, &[], self.failed_handshakes.load(Ordering::Relaxed));
    }
}
