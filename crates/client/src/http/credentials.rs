//! What a client shows of itself with each request, kept current.

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
use crate::kubeconfig::{ClusterInfo, Connection, Exec, Identity};

/// Where the credentials come from, and those that were last had.
pub(crate) struct Credentials {
    source: Source,
    clock: Arc<dyn Clock>,
    held: Mutex<Option<Held>>,
    /// One at a time asks the source; the others wait for what it gets.
    turn: Semaphore,
}

enum Source {
    /// Nothing but what the connection itself shows.
    Connection,
    Fixed(HeaderValue),
    /// A token that somebody keeps current in a file.
    File(PathBuf),
    Plugin(Box<Exec>, Box<ClusterInfo>),
}

/// What to show.
#[derive(Clone, Default)]
pub(crate) struct Shown {
    pub(crate) header: Option<HeaderValue>,
    /// Those of the connection if absent.
    pub(crate) certificate: Option<Certificate>,
}

/// Certificate chain and key, PEM.
pub(crate) type Certificate = Arc<(String, String)>;

#[derive(Clone)]
struct Held {
    shown: Shown,
    /// When the source has to be asked again.
    until: Option<Timestamp>,
}

/// A file is read again so often, as client-go does.
const FILE_AGE: Duration = Duration::from_secs(60);

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
            held: Mutex::default(),
            turn: Semaphore::new(1),
        })
    }

    /// What to show now.
    pub(crate) async fn current(&self) -> Result<Shown, Status> {
        match &self.source {
            Source::Connection => Ok(Shown::default()),
            Source::Fixed(header) => Ok(Shown {
                header: Some(header.clone()),
                certificate: None,
            }),
            Source::File(_) | Source::Plugin(..) => self.kept().await,
        }
    }

    /// The server did not take what was shown. Whether there may be something better to show.
    pub(crate) fn refused(&self, shown: &Shown) -> bool {
        let mut held = self.held.lock();
        let is_current = held
            .as_ref()
            .is_some_and(|held| held.shown.header == shown.header);
        if is_current {
            *held = None;
        }
        matches!(self.source, Source::File(_) | Source::Plugin(..))
    }

    async fn kept(&self) -> Result<Shown, Status> {
        if let Some(shown) = self.fresh() {
            return Ok(shown);
        }
        let _turn = self.turn.acquire().await.map_err(Status::internal)?;
        if let Some(shown) = self.fresh() {
            return Ok(shown);
        }
        let held = self.ask().await;
        let held = held.map_err(|error| Status::internal(format_args!("getting credentials: {error}")))?;
        *self.held.lock() = Some(held.clone());
        Ok(held.shown)
    }

    fn fresh(&self) -> Option<Shown> {
        let held = self.held.lock();
        let now = self.clock.now();
        let fresh = held
            .as_ref()
            .filter(|held| held.until.is_none_or(|until| now < until));
        fresh.map(|held| held.shown.clone())
    }

    async fn ask(&self) -> Result<Held, Box<dyn std::error::Error + Send + Sync>> {
        match &self.source {
            Source::File(path) => {
                let token = tokio::fs::read_to_string(path).await;
                let token = token.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
                let shown = Shown {
                    header: Some(bearer(token.trim())?),
                    certificate: None,
                };
                let until = self.clock.now().saturating_add(FILE_AGE).ok();
                Ok(Held { shown, until })
            }
            Source::Plugin(exec, cluster) => {
                let printed = exec.run(cluster).await?;
                let shown = Shown {
                    header: printed.token.as_deref().map(bearer).transpose()?,
                    certificate: printed.certificate.map(Arc::new),
                };
                let until = printed.expires_at;
                Ok(Held { shown, until })
            }
            Source::Connection | Source::Fixed(_) => Ok(Held {
                shown: Shown::default(),
                until: None,
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
