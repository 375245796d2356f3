//! Configuration of the engine: endpoints, TLS, credentials.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use http::Uri;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use setpoint_grpc::Endpoint;

/// Where the cluster is and how to use it.
#[derive(Clone, Debug)]
pub struct EtcdConfig {
    /// The members. Calls go to one of them, and to the next if it does not respond.
    pub endpoints: Vec<Endpoint>,
    /// User and password, if the cluster has authentication enabled.
    pub credentials: Option<Credentials>,
    /// How often one of the servers compacts etcd's history; zero for never.
    pub compaction_interval: Duration,
    /// How long the first list may take to succeed.
    pub start_timeout: Duration,
    /// How long a transaction or a read may take.
    pub request_timeout: Duration,
}

/// User of etcd.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub user: String,
    pub password: String,
}

/// PEM files for TLS (upstream: `--etcd-cafile`, `--etcd-certfile`, `--etcd-keyfile`).
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// The authorities of the members' certificates.
    pub authority: Option<PathBuf>,
    /// The client certificate.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("invalid etcd server {0:?}: expected http://HOST:PORT or https://HOST:PORT")]
    Server(String),
    #[error("cannot read {path}: {source}", path = path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("invalid PEM in {path}: {source}", path = path.display())]
    Pem {
        path: PathBuf,
        source: rustls_pki_types::pem::Error,
    },
    #[error("etcd servers with https need --etcd-cafile")]
    NoAuthority,
    #[error("TLS of etcd: {0}")]
    Tls(#[from] rustls::Error),
}

impl EtcdConfig {
    /// The defaults with these servers, as kube-apiserver's flag names them: `http://HOST:PORT` or `https://HOST:PORT`.
    pub fn new(servers: &[String], tls: &TlsFiles) -> Result<Self, ConfigError> {
        let uses_tls = servers.iter().any(|server| server.starts_with("https://"));
        let tls = uses_tls.then(|| tls.client_config()).transpose()?.map(Arc::new);
        let endpoints = servers.iter().map(|server| endpoint(server, tls.as_ref()));
        Ok(Self {
            endpoints: endpoints.collect::<Result<_, _>>()?,
            credentials: None,
            compaction_interval: Duration::from_secs(300),
            start_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(10),
        })
    }
}

impl TlsFiles {
    fn client_config(&self) -> Result<ClientConfig, ConfigError> {
        let authority = self.authority.as_ref().ok_or(ConfigError::NoAuthority)?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authority)? {
            roots.add(certificate)?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        Ok(match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                builder.with_client_auth_cert(certificates(certificate)?, private_key(key)?)?
            }
            _ => builder.with_no_client_auth(),
        })
    }
}

fn endpoint(server: &str, tls: Option<&Arc<ClientConfig>>) -> Result<Endpoint, ConfigError> {
    let invalid = || ConfigError::Server(server.to_owned());
    let uri: Uri = server.parse().map_err(|_| invalid())?;
    let host = uri.host().ok_or_else(invalid)?;
    let tls = match uri.scheme_str() {
        Some("http") => None,
        Some("https") => tls.cloned(),
        _ => return Err(invalid()),
    };
    Ok(Endpoint::Tcp {
        host: host.trim_matches(['[', ']']).to_owned(),
        port: uri.port_u16().ok_or_else(invalid)?,
        tls,
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let pem = read(path)?;
    let certificates: Result<_, _> = CertificateDer::pem_slice_iter(&pem).collect();
    certificates.map_err(|source| invalid_pem(path, source))
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ConfigError> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|source| invalid_pem(path, source))
}

fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    fs::read(path).map_err(|source| ConfigError::File {
        path: path.to_owned(),
        source,
    })
}

fn invalid_pem(path: &Path, source: rustls_pki_types::pem::Error) -> ConfigError {
    ConfigError::Pem {
        path: path.to_owned(),
        source,
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(server: &str, expected: Result<&str, ()>) {
        let config = EtcdConfig::new(&[server.to_owned()], &TlsFiles::default());
        let endpoint = config.map(|config| format!("{:?}", config.endpoints[0]));
        assert_eq!(endpoint.as_deref().map_err(|_| ()), expected);
    }

    #[test]
    fn servers_are_urls_with_a_port() {
        check("http://127.0.0.1:2379", Ok("http://127.0.0.1:2379"));
        check("http://[::1]:2379", Ok("http://[::1]:2379"));
        check("127.0.0.1:2379", Err(()));
        check("http://127.0.0.1", Err(()));
        check("unix:///run/etcd", Err(()));
    }

    #[test]
    fn tls_needs_an_authority() {
        check("https://127.0.0.1:2379", Err(()));
    }
}
