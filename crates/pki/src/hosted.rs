//! [`HostedPki`]: the keys of a cluster that another server hosts. They are in memory only.

use jiff::Timestamp;

use crate::certificates::{CLUSTER_AUTHORITY, PROXY_AUTHORITY, proxy};
use crate::{CertKeyPair, Error, issue};

/// The CAs of a hosted cluster, and its client certificate for aggregated API servers. The host serves the cluster with
/// its own certificate. None is renewed: the client certificate is valid for a year, the CAs for ten.
#[derive(Debug, Clone)]
pub struct HostedPki {
    /// Signs the client certificates of users.
    pub authority: CertKeyPair,
    /// Signs the client certificate for aggregated API servers.
    pub proxy_authority: CertKeyPair,
    pub proxy: CertKeyPair,
}

impl HostedPki {
    /// New keys. `proxy_name` is the common name of the client certificate, which aggregated API servers check.
    pub fn generate(proxy_name: &str, now: Timestamp) -> Result<Self, Error> {
        let proxy_authority = issue::authority(PROXY_AUTHORITY, now)?;
        let spec = proxy(proxy_name);
        Ok(Self {
            authority: issue::authority(CLUSTER_AUTHORITY, now)?,
            proxy: issue::signed(&proxy_authority, spec.file, &spec.subject, now)?,
            proxy_authority,
        })
    }
}
