//! The certificates of the process in the API server's types.

use anyhow::{Context, Result};
use setpoint_apiserver::aggregate::ProxyClientIdentity;
use setpoint_apiserver::tls::Identity;
use setpoint_pki::Pki;

/// The server's certificate, and the CA of its clients' certificates.
pub(super) fn server(pki: &Pki) -> Result<Identity> {
    Ok(Identity {
        chain: vec![
            pki.server
                .certificate_der()
                .context("cannot use the server's certificate")?,
        ],
        key: pki.server.key_der().context("cannot use the server's key")?,
        client_ca: pki
            .authority
            .certificate_der()
            .context("cannot use the cluster's CA")?,
    })
}

/// The client certificate for aggregated API servers.
pub(super) fn front_proxy(pki: &Pki) -> Result<ProxyClientIdentity> {
    Ok(ProxyClientIdentity {
        chain: vec![
            pki.proxy
                .certificate_der()
                .context("cannot use the front-proxy client's certificate")?,
        ],
        key: pki
            .proxy
            .key_der()
            .context("cannot use the front-proxy client's key")?,
    })
}
