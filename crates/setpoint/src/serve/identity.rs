//! The client certificate for aggregated API servers, in the API server's type.

use anyhow::{Context, Result};
use setpoint_apiserver::aggregate::ProxyClientIdentity;
use setpoint_pki::Pki;

/// The client certificate for aggregated API servers.
pub(super) fn front_proxy(pki: &Pki) -> Result<ProxyClientIdentity> {
    Ok(ProxyClientIdentity {
        chain: pki
            .proxy
            .chain()
            .context("cannot use the front-proxy client's certificate")?,
        key: pki
            .proxy
            .key_der()
            .context("cannot use the front-proxy client's key")?,
    })
}
