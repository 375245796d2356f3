//! TLS for connections to kubelets, from the flags.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use setpoint_apiserver::aggregate::ProxyClientIdentity;
use setpoint_apiserver::{KubeletTls, Network};

use crate::args::KubeletFlags;

/// The network with the certificates that the flags name.
pub(super) fn network(flags: &KubeletFlags) -> Result<Network> {
    let read = |path: &Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let unusable = |reason| anyhow!("cannot use the certificates for kubelets: {reason}");
    let identity = match (&flags.kubelet_client_certificate, &flags.kubelet_client_key) {
        (Some(chain), Some(key)) => {
            Some(ProxyClientIdentity::from_pem(&read(chain)?, &read(key)?).map_err(unusable)?)
        }
        _ => None,
    };
    let authority = flags.kubelet_certificate_authority.as_deref();
    let authority = authority.map(read).transpose()?;
    Network::new(KubeletTls { authority, identity }).map_err(unusable)
}
