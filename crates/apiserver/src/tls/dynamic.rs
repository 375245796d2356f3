//! [`DynamicTls`]: the TLS configuration of a running server.

use std::sync::Arc;

use parking_lot::RwLock;

use super::{Error, Identity, Tls};

/// The TLS configuration of a server, which its owner replaces when a certificate is renewed. New handshakes use the new
/// one; connections keep what they have negotiated.
#[derive(Debug)]
pub struct DynamicTls(RwLock<Tls>);

impl DynamicTls {
    pub fn new(identity: Identity) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self(RwLock::new(Tls::new(identity)?))))
    }

    /// Replaces the certificates. If they cannot be used, the previous ones stay.
    pub fn replace(&self, identity: Identity) -> Result<(), Error> {
        let tls = Tls::new(identity)?;
        *self.0.write() = tls;
        Ok(())
    }

    /// The configuration for a new connection.
    pub(crate) fn current(&self) -> Tls {
        self.0.read().clone()
    }
}
