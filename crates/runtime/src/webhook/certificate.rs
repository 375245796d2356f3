//! [`Certificate`]: the serving certificate of a webhook, from files that are reloaded when they change.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate and its key, PEM, as `tls.crt` and `tls.key` of a mounted secret. They are read again when they change.
#[derive(Debug)]
pub struct Certificate {
    chain: PathBuf,
    key: PathBuf,
    /// Client certificates must be signed by one of these CAs. Empty: clients need no certificate.
    client_authorities: Vec<PathBuf>,
    loaded: Mutex<Option<LoadedConfig>>,
}

/// The loaded certificate, and the modification times of its files.
#[derive(Debug)]
struct LoadedConfig {
    written: [Option<SystemTime>; 2],
    config: Arc<ServerConfig>,
}

/// Why a certificate cannot be loaded.
#[allow(missing_docs, reason = "the error messages document the variants")]
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("cannot read {path:?}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("{path:?} is not a valid PEM file: {reason}")]
    Pem { path: PathBuf, reason: String },
    #[error("the client CAs are invalid: {0}")]
    ClientAuthorities(String),
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

impl Certificate {
    /// The certificate in these files, which are not read yet.
    pub fn files(chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            chain: chain.into(),
            key: key.into(),
            client_authorities: Vec::new(),
            loaded: Mutex::default(),
        }
    }

    /// The same certificate for clients that have one of these CAs, in PEM files, only.
    #[must_use]
    pub fn with_client_authorities(self, client_authorities: Vec<PathBuf>) -> Self {
        Self {
            client_authorities,
            ..self
        }
    }

    /// The current TLS configuration. If changed files cannot be read, the previous certificate stays in use.
    pub(super) fn current(&self) -> Result<Arc<ServerConfig>, CertificateError> {
        let written =
            [&self.chain, &self.key].map(|path| fs::metadata(path).and_then(|file| file.modified()).ok());
        let mut loaded = self.loaded.lock();
        if let Some(loaded) = loaded.as_ref().filter(|loaded| loaded.written == written) {
            return Ok(loaded.config.clone());
        }
        match (self.load(), loaded.as_ref()) {
            (Ok(config), _) => {
                let config = Arc::new(config);
                *loaded = Some(LoadedConfig {
                    written,
                    config: config.clone(),
                });
                Ok(config)
            }
            (Err(error), Some(loaded)) => {
                tracing::warn!(%error, "cannot reload the changed certificate; keeping the previous one");
                Ok(loaded.config.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    fn load(&self) -> Result<ServerConfig, CertificateError> {
        let chain = read_certificates(&self.chain)?;
        let key = read_file(&self.key)?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| invalid_pem(&self.key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let config = match self.client_authorities.is_empty() {
            true => config.with_no_client_auth(),
            false => {
                let roots = Arc::new(self.client_roots()?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                let verifier =
                    verifier.map_err(|error| CertificateError::ClientAuthorities(error.to_string()))?;
                config.with_client_cert_verifier(verifier)
            }
        };
        let mut config = config.with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    fn client_roots(&self) -> Result<RootCertStore, CertificateError> {
        let mut roots = RootCertStore::empty();
        for path in &self.client_authorities {
            for certificate in read_certificates(path)? {
                roots.add(certificate)?;
            }
        }
        Ok(roots)
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    CertificateDer::pem_slice_iter(&read_file(path)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| invalid_pem(path, &error))
}

fn read_file(path: &Path) -> Result<Vec<u8>, CertificateError> {
    fs::read(path).map_err(|source| CertificateError::File {
        path: path.to_owned(),
        source,
    })
}

fn invalid_pem(path: &Path, error: &dyn std::fmt::Display) -> CertificateError {
    CertificateError::Pem {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}
