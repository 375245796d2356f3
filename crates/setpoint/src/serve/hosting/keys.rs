//! The credentials of a hosted cluster: generated with it, in memory only.

use std::sync::Arc;

use anyhow::{Context, Result};
use setpoint_apiserver::tls::ClientAuthorities;
use setpoint_auth::Issuer;
use setpoint_auth::authenticate::TokenFile;
use setpoint_auth::keys::SigningKey;
use setpoint_controllers::ClusterCertificates;
use setpoint_controllers::certificates::Authority;
use setpoint_kinds::bootstrap::{PROXY_NAME, RequestHeaderInfo};
use setpoint_pki::HostedPki;
use tokio::sync::watch;
use uuid::Uuid;

use super::Host;
use crate::serve::credentials::Credentials;

/// The name and the group of the administrator, as in the kubeconfig of a server.
const ADMINISTRATOR: &str = "kubernetes-admin,,system:masters";

/// The keys of a new cluster.
pub(super) struct Keys {
    pub(super) credentials: Credentials,
    /// The bearer token of the administrator. Unlike a client certificate it does not need a connection of its own.
    pub(super) administrator: String,
    /// Held while the cluster runs: its controllers wait for changes.
    pub(super) certificates: watch::Sender<ClusterCertificates>,
}

impl Keys {
    /// Generates the keys of a cluster at this URL.
    pub(super) fn generate(host: &Host, url: &str) -> Result<Self> {
        let pki = HostedPki::generate(PROXY_NAME, host.clock.now())?;
        let client_ca = [pki.authority.certificate_der()?];
        let certificates = watch::Sender::new(ClusterCertificates {
            root_ca: host.certificates.borrow().root_ca.clone(),
            client_ca: pki.authority.certificate.clone(),
            proxy_ca: pki.proxy_authority.certificate.clone(),
            authority: Some(Authority {
                certificate: pki.authority.certificate,
                key: pki.authority.key,
            }),
        });
        let signing = SigningKey::from_pem(&SigningKey::generate()?);
        let issuer = Issuer::new(url, signing.context("cannot use the generated key")?, Vec::new());
        let administrator = random_token();
        let tokens = TokenFile::parse(
            &format!("{administrator},{ADMINISTRATOR}"),
            issuer.audiences.clone(),
        );
        let credentials = Credentials {
            issuer: Arc::new(issuer),
            token_file: Some(tokens?),
            client_authorities: ClientAuthorities::new(&client_ca, &[])?,
            request_headers: None,
            request_header_info: RequestHeaderInfo::default(),
            proxy: pki.proxy,
            certificates: certificates.subscribe(),
        };
        Ok(Self {
            credentials,
            administrator,
            certificates,
        })
    }
}

/// 244 random bits of the operating system's generator.
fn random_token() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}
