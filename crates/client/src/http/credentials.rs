//! The credentials of requests, refreshed when they expire.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::http::HeaderValue;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::{Clock, Status};
use tokio::sync::Semaphore;

use super::Error;
use crate::kubeconfig::{ClusterInfo, Connection, ExecConfig, Identity};

/// The source of the credentials, and those last loaded.
pub(crate) struct Credentials {
    source: Source,
    clock: Arc<dyn Clock>,
    cached: Mutex<Option<CachedCredentials>>,
    /// One request at a time loads from the source; others wait for its result.
    refresh_lock: Semaphore,
}

enum Source {
    /// The client certificate of the connection, or none.
    Connection,
    Fixed(HeaderValue),
    /// A token file that is rotated.
    File(PathBuf),
    Plugin(Box<ExecConfig>, Box<ClusterInfo>),
}

/// The credentials of a request.
#[derive(Clone, Default)]
pub(crate) struct RequestCredentials {
    pub(crate) header: Option<HeaderValue>,
    /// If absent, that of the connection.
    pub(crate) certificate: Option<Certificate>,
}

/// Certificate chain and key, PEM.
pub(crate) type Certificate = Arc<(String, String)>;

#[derive(Clone)]
struct CachedCredentials {
    credentials: RequestCredentials,
    /// When the source has to be read again.
    expires_at: Option<Timestamp>,
}

/// A token file is read again after this, as in client-go.
const TOKEN_FILE_TTL: Duration = Duration::from_secs(60);

// === impl Credentials ===

impl Credentials {
    pub(crate) fn new(connection: &Connection, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let source = match &connection.identity {
            Identity::Anonymous | Identity::Certificate { .. } => Source::Connection,
            Identity::Token(token) => Source::Fixed(bearer(token)?),
            Identity::TokenFile(path) => Source::File(path.clone()),
            Identity::Basic { username, password } => Source::Fixed(basic(username, password)?),
            Identity::Exec(exec) => Source::Plugin(exec.clone(), Box::new(cluster_info(connection))),
        };
        Ok(Self {
            source,
            clock,
            cached: Mutex::default(),
            refresh_lock: Semaphore::new(1),
        })
    }

    /// The current credentials.
    pub(crate) async fn current(&self) -> Result<RequestCredentials, Status> {
        match &self.source {
            Source::Connection => Ok(RequestCredentials::default()),
            Source::Fixed(header) => Ok(RequestCredentials {
                header: Some(header.clone()),
                certificate: None,
            }),
            Source::File(_) | Source::Plugin(..) => self.cached_or_load().await,
        }
    }

    /// Drops cached credentials that the server rejected. Returns whether the source may have newer ones.
    pub(crate) fn invalidate(&self, credentials: &RequestCredentials) -> bool {
        let mut cached = self.cached.lock();
        let is_current = cached
            .as_ref()
            .is_some_and(|cached| cached.credentials.header == credentials.header);
        if is_current {
            *cached = None;
        }
        matches!(self.source, Source::File(_) | Source::Plugin(..))
    }

    async fn cached_or_load(&self) -> Result<RequestCredentials, Status> {
        if let Some(credentials) = self.fresh() {
            return Ok(credentials);
        }
        let _turn = self.refresh_lock.acquire().await.map_err(Status::internal)?;
        if let Some(credentials) = self.fresh() {
            return Ok(credentials);
        }
        let cached = self.load().await;
        let cached =
            cached.map_err(|error| Status::internal(format_args!("getting credentials: {error}")))?;
        *self.cached.lock() = Some(cached.clone());
        Ok(cached.credentials)
    }

    fn fresh(&self) -> Option<RequestCredentials> {
        let cached = self.cached.lock();
        let now = self.clock.now();
        let fresh = cached
            .as_ref()
            .filter(|cached| cached.expires_at.is_none_or(|expires_at| now < expires_at));
        fresh.map(|cached| cached.credentials.clone())
    }

    async fn load(&self) -> Result<CachedCredentials, Box<dyn std::error::Error + Send + Sync>> {
        match &self.source {
            Source::File(path) => {
                let token = tokio::fs::read_to_string(path).await;
                let token = token.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
                let credentials = RequestCredentials {
                    header: Some(bearer(token.trim())?),
                    certificate: None,
                };
                let expires_at = self.clock.now().saturating_add(TOKEN_FILE_TTL).ok();
                Ok(CachedCredentials {
                    credentials,
                    expires_at,
                })
            }
            Source::Plugin(exec, cluster) => {
                let credential = exec.run(cluster).await?;
                let credentials = RequestCredentials {
                    header: credential.token.as_deref().map(bearer).transpose()?,
                    certificate: credential.certificate.map(Arc::new),
                };
                let expires_at = credential.expires_at;
                Ok(CachedCredentials {
                    credentials,
                    expires_at,
                })
            }
            Source::Connection | Source::Fixed(_) => Ok(CachedCredentials {
                credentials: RequestCredentials::default(),
                expires_at: None,
            }),
        }
    }
}

fn bearer(token: &str) -> Result<HeaderValue, Error> {
    secret(&format!("Bearer {token}"))
}

fn basic(username: &str, password: &str) -> Result<HeaderValue, Error> {
    secret(&format!(
        "Basic {}",
        STANDARD.encode(format!("{username}:{password}"))
    ))
}

fn secret(text: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(text).map_err(|_| Error::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

fn cluster_info(connection: &Connection) -> ClusterInfo {
    ClusterInfo {
        server: connection.server.clone(),
        tls_server_name: connection.server_name.clone(),
        insecure_skip_tls_verify: connection.insecure_skip_tls_verify,
        certificate_authority_data: connection.authority.as_ref().map(|pem| STANDARD.encode(pem)),
    }
}
