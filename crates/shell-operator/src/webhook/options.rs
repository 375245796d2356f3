//! Options of the webhook servers, and their certificates.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use jiff::Timestamp;
use setpoint_pki::WebhookPki;
use setpoint_runtime::webhook::Certificate;

use crate::operator::{Error, Options};
use crate::tmp_dir;

/// Options of the webhooks.
#[derive(Debug, Clone)]
pub struct WebhookOptions {
    /// The namespace of the services.
    pub namespace: String,
    /// The beginning of the names of the webhook configurations.
    pub configuration_name: String,
    /// The failure policy of webhooks whose hooks set none: `Fail` or `Ignore`.
    pub failure_policy: String,
    /// The server of AdmissionReviews.
    pub admission: ServerOptions,
    /// The server of ConversionReviews.
    pub conversion: ServerOptions,
}

/// Options of one server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The service by which the API server reaches it.
    pub service: String,
    /// The certificate, in PEM.
    pub certificate: PathBuf,
    /// The key of the certificate, in PEM.
    pub key: PathBuf,
    /// The CA of the certificate, in PEM.
    pub authority: PathBuf,
    /// Clients need a certificate of one of these CAs, if there are any.
    pub client_authorities: Vec<PathBuf>,
    /// The address on which it listens.
    pub listen: SocketAddr,
}

/// The certificate of a server.
#[derive(Debug)]
pub(super) struct LoadedCertificate {
    pub(super) certificate: Certificate,
    /// The CA, in PEM.
    pub(super) authority: Vec<u8>,
}

impl ServerOptions {
    /// The certificate of the files. If none of them exists, a certificate for the service is issued.
    pub(super) fn load(&self, options: &Options, now: Timestamp) -> Result<LoadedCertificate, Error> {
        let files = [&self.certificate, &self.key, &self.authority];
        let mut paths = files.map(Clone::clone);
        if files.iter().all(|path| !path.exists()) {
            let directory = options.tmp_dir.join(format!("{}-certs", self.service));
            tracing::info!(
                path = %directory.display(),
                service = self.service,
                "no certificate of the webhook server is given: one is issued"
            );
            let names = self.service_names(&options.webhooks.namespace);
            tmp_dir::create_private(&directory).map_err(|source| Error::TmpDir {
                path: directory.clone(),
                source,
            })?;
            let issued = WebhookPki::generate(&names, now).and_then(|pki| pki.write(&directory));
            issued.map_err(|error| Error::Failed(format!("issue webhook certificate: {error}")))?;
            paths = ["tls.crt", "tls.key", "ca.crt"].map(|name| directory.join(name));
        }
        let [certificate, key, authority] = paths;
        let bundle = fs::read(&authority);
        let bundle = bundle
            .map_err(|error| Error::Failed(format!("read CA bundle {}: {error}", authority.display())))?;
        let certificate =
            Certificate::files(certificate, key).with_client_authorities(self.client_authorities.clone());
        Ok(LoadedCertificate {
            certificate,
            authority: bundle,
        })
    }

    /// The names of the service in the cluster.
    fn service_names(&self, namespace: &str) -> Vec<String> {
        let name = format!("{}.{namespace}", self.service);
        vec![format!("{name}.svc"), format!("{name}.svc.cluster.local"), name]
    }
}
