//! What a webhook shows those who call it: a certificate in files that somebody keeps current.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate and its key, PEM, as `tls.crt` and `tls.key` of a mounted secret. They are read again when they change.
#[derive(Debug)]
pub struct Certificate {
    chain: PathBuf,
    key: PathBuf,
    read: Mutex<Option<Read>>,
}

/// What was read, and when the files were written that it was read from.
#[derive(Debug)]
struct Read {
    written: [Option<SystemTime>; 2],
    config: Arc<ServerConfig>,
}

/// Why there is nothing to show.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, thiserror::Error)]
pub enum BadCertificate {
    #[error("cannot read {path:?}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("{path:?} is no PEM of what it should be: {reason}")]
    Pem { path: PathBuf, reason: String },
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

impl Certificate {
    /// The certificate in these files. Nothing is read yet.
    pub fn files(chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            chain: chain.into(),
            key: key.into(),
            read: Mutex::default(),
        }
    }

    /// What to show now. Files that cannot be read do not matter while there is something that could be.
    pub(super) fn current(&self) -> Result<Arc<ServerConfig>, BadCertificate> {
        let written =
            [&self.chain, &self.key].map(|path| fs::metadata(path).and_then(|file| file.modified()).ok());
        let mut read = self.read.lock();
        if let Some(read) = read.as_ref().filter(|read| read.written == written) {
            return Ok(read.config.clone());
        }
        match (self.load(), read.as_ref()) {
            (Ok(config), _) => {
                let config = Arc::new(config);
                *read = Some(Read {
                    written,
                    config: config.clone(),
                });
                Ok(config)
            }
            (Err(error), Some(read)) => {
                tracing::warn!(%error, "the certificate has changed and cannot be read");
                Ok(read.config.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    fn load(&self) -> Result<ServerConfig, BadCertificate> {
        let chain = text(&self.chain)?;
        let chain = CertificateDer::pem_slice_iter(&chain)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| bad(&self.chain, &error))?;
        let key = text(&self.key)?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| bad(&self.key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = config.with_no_client_auth().with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn text(path: &Path) -> Result<Vec<u8>, BadCertificate> {
    fs::read(path).map_err(|source| BadCertificate::File {
        path: path.to_owned(),
        source,
    })
}

fn bad(path: &Path, error: &dyn std::fmt::Display) -> BadCertificate {
    BadCertificate::Pem {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}
