//! [`Http`]: the API of a remote server, over HTTPS.
//!
//! One connection is shared by all requests where the server speaks HTTP/2; else there are as many as requests at a time.
//! The server goes by the credentials of the connection: the user in a request means nothing to it.
//!
//! Objects travel as JSON, which loses nothing, or as protobuf where that is wanted: see [`Http::protobuf`].
//!
//! A request that the server is too busy for is sent again when the server says so, ten times at most; one whose
//! credentials have grown old is sent once more with new ones.

mod answer;
mod connect;
mod credentials;
mod inflate;
mod language;
mod limit;
mod metrics;
mod proxy;
mod question;
pub mod trust;
mod watch;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ::http::uri::InvalidUri;
use ::http::{HeaderName, HeaderValue, Request as HttpRequest, header};
use bytes::Bytes;
use http_body_util::Full;
use parking_lot::Mutex;
use setpoint_api::{Clock, Reply, Request, Response, Serve, Status, SystemClock};

use crate::kubeconfig::{Connection, Identity};
use answer::Refusal;
use connect::{Answer, Connector};
use credentials::{Certificate, Credentials, Shown};
use language::{Form, Language, Languages};
use limit::Bucket;
use question::Question;

pub use limit::Rate;
pub use metrics::Metrics;

/// A remote server. Cloning shares its connections.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let served = cluster.serve_https().await;
/// # let connection = served.connection();
/// use k8s_openapi::api::core::v1::Namespace;
/// use setpoint_client::{Client, Http};
///
/// let http = Http::new(&connection)?;
/// let client = Client::remote(http.protobuf());
/// let namespace = client.all::<Namespace>().get("default").await?;
/// assert_eq!(namespace.shared()?.status.as_ref().unwrap().phase.as_deref(), Some("Active"));
/// assert!(client.metrics_text().contains("rest_client_requests_total"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Http {
    /// What comes before every path: scheme, host and the path of the server itself.
    base: String,
    credentials: Arc<Credentials>,
    /// Headers that say on whose behalf one asks.
    impersonate: Arc<[(HeaderName, HeaderValue)]>,
    lines: Arc<Lines>,
    form: Form,
    languages: Arc<Languages>,
    bucket: Option<Arc<Bucket>>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    /// Who has the connections, if it is somebody else.
    carrier: Option<Carrier>,
}

/// Carries requests over connections that somebody else has. The user that a request is made for is among its
/// extensions, as `Arc<User>`.
pub type Carrier = Arc<dyn Fn(HttpRequest<Full<Bytes>>) -> Carrying + Send + Sync>;

/// The answer to come of a request that is carried.
pub type Carrying =
    Pin<Box<dyn Future<Output = Result<::http::Response<hyper::body::Incoming>, Status>> + Send>>;

/// The connections, which are made anew when a plugin prints another certificate.
struct Lines {
    connection: Connection,
    current: Mutex<Current>,
}

/// The connections of one who shows this certificate, or that of the connection.
struct Current {
    certificate: Option<Certificate>,
    connector: Arc<Connector>,
}

/// Why a connection cannot even be tried.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("invalid server address {address:?}: {source}")]
    Address { address: String, source: InvalidUri },
    #[error("server address {0:?} names no host")]
    NoHost(String),
    #[error("no certificate authority for {0:?}, so the server cannot be verified")]
    NoAuthority(String),
    #[error("cannot read the {what}: {reason}")]
    Pem { what: &'static str, reason: String },
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    #[error("the token cannot stand in a header")]
    Token,
    #[error("cannot go through the proxy {0:?}: only http:// is known")]
    Proxy(String),
    #[error("cannot ask on behalf of {0:?}: it cannot stand in a header")]
    Impersonate(String),
}

const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("setpoint/", env!("CARGO_PKG_VERSION")));
const GZIP: HeaderValue = HeaderValue::from_static("gzip");
/// How often a request is sent again to a server that asks for it.
const RETRIES: usize = 10;

// === impl Http ===

impl Http {
    /// Nothing is connected before the first request.
    pub fn new(connection: &Connection) -> Result<Self, Error> {
        Self::with_clock(connection, Arc::new(SystemClock::new()))
    }

    /// The same on another clock, by which credentials age and retries wait.
    pub fn with_clock(connection: &Connection, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        Ok(Self {
            base: connection.server.trim_end_matches('/').to_owned(),
            credentials: Arc::new(Credentials::new(connection, clock.clone())?),
            impersonate: impersonate(connection)?,
            lines: Arc::new(Lines::new(connection)?),
            form: Form::Whole,
            languages: Arc::default(),
            bucket: None,
            clock,
            metrics: Metrics::default(),
            carrier: None,
        })
    }

    /// Whoever is at the other end of connections that somebody else has. It is told who asks.
    pub fn carried(
        carrier: impl Fn(HttpRequest<Full<Bytes>>) -> Carrying + Send + Sync + 'static,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let connection = Connection {
            server: "http://carried".to_owned(),
            ..Connection::default()
        };
        let carrier: Option<Carrier> = Some(Arc::new(carrier));
        Ok(Self {
            carrier,
            ..Self::with_clock(&connection, clock)?
        })
    }

    /// The same server, asked no faster than this. Servers look after their fairness themselves, so there is no limit
    /// where none is asked for.
    #[must_use]
    pub fn limited(self, rate: Rate) -> Self {
        let bucket = Some(Arc::new(Bucket::new(rate, self.clock.clone())));
        Self { bucket, ..self }
    }

    /// The same server, asked for nothing but the metadata of objects.
    #[must_use]
    pub fn metadata_only(&self) -> Self {
        Self {
            form: Form::Metadata,
            ..self.clone()
        }
    }

    /// The same server, spoken to in protobuf where it and the kind have that form, and in JSON elsewhere: about half the
    /// bytes, for more work at this end, as objects are kept in JSON. A field that came after this program is lost
    /// in protobuf, so one who writes back what it does not know should stay with JSON.
    #[must_use]
    pub fn protobuf(&self) -> Self {
        Self {
            languages: Arc::new(Languages::with_protobuf()),
            ..self.clone()
        }
    }

    /// The requests made so far by this client and those made of it.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The same as text, for whoever gathers figures.
    pub fn metrics_text(&self) -> String {
        let host = self
            .base
            .split_once("://")
            .map_or(self.base.as_str(), |(_, host)| host);
        self.metrics.to_text(host)
    }

    /// The answer to a GET of a path that is no resource, such as `/version`.
    pub async fn get(&self, path: &str) -> Result<Bytes, Status> {
        self.get_as(path, language::JSON).await
    }

    /// The same in a form of one's own.
    pub async fn get_as(&self, path: &str, accept: &'static str) -> Result<Bytes, Status> {
        let question = Question::plain(path);
        let mut tried = 0;
        loop {
            let answer = self.send(&question, accept).await?;
            match answer::read_plain(answer).await {
                Ok(bytes) => return Ok(bytes),
                Err(refusal) => tried = self.wait_to_retry(refusal, tried).await?,
            }
        }
    }

    /// Asks in protobuf where that is wanted, and in JSON from then on if the server will not have it.
    async fn ask(&self, request: Request) -> Result<Response, Status> {
        let resource = &request.target.resource;
        let language = self.languages.of(resource);
        let answer = self.ask_in(&request, language).await;
        match answer {
            Err(status) if language == Language::Protobuf && language::is_refused(&status) => {
                tracing::debug!(?resource, %status, "there is no protobuf of it");
                self.languages.refuse(resource);
                self.ask_in(&request, Language::Json).await
            }
            answer => answer,
        }
    }

    async fn ask_in(&self, request: &Request, language: Language) -> Result<Response, Status> {
        let question = Question::of(request, language);
        let accept = language.accept(self.form, &request.verb);
        let mut tried = 0;
        loop {
            let answer = self.send(&question, accept).await?;
            match answer::read(answer, &request.verb).await {
                Ok(response) => return Ok(response),
                Err(refusal) => tried = self.wait_to_retry(refusal, tried).await?,
            }
        }
    }

    /// Waits as long as the server says; if it does not, or has done so too often, the refusal stands.
    async fn wait_to_retry(&self, refusal: Refusal, tried: usize) -> Result<usize, Status> {
        match refusal.retry_after {
            Some(seconds) if tried < RETRIES => {
                tracing::debug!(status = %refusal.status, seconds, "asked to come back later");
                self.clock.sleep(Duration::from_secs(seconds)).await;
                self.metrics.retried();
                Ok(tried + 1)
            }
            _ => Err(refusal.status),
        }
    }

    /// Sends a question, with other credentials if the first are refused and there are others.
    async fn send(&self, question: &Question, accept: &str) -> Result<Answer, Status> {
        if let Some(bucket) = &self.bucket {
            self.metrics.limited(bucket.turn().await);
        }
        let shown = self.credentials.current().await?;
        let answer = self.send_as(question, accept, &shown).await?;
        let is_refused = answer.response.status() == ::http::StatusCode::UNAUTHORIZED;
        if !is_refused || !self.credentials.refused(&shown) {
            return Ok(answer);
        }
        let renewed = self.credentials.current().await?;
        if renewed.header == shown.header && renewed.certificate == shown.certificate {
            return Ok(answer);
        }
        drop(answer);
        self.send_as(question, accept, &renewed).await
    }

    async fn send_as(&self, question: &Question, accept: &str, shown: &Shown) -> Result<Answer, Status> {
        let connector = self.lines.connector(shown).map_err(Status::internal)?;
        let (message, started) = (self.message(question, accept, shown)?, self.clock.now());
        let answer = match &self.carrier {
            None => connector.send(message).await,
            Some(carrier) => carrier(message).await.map(|response| connector.carried(response)),
        };
        let code = answer
            .as_ref()
            .ok()
            .map(|answer| answer.response.status().as_u16());
        let took = self.clock.now().duration_since(started).unsigned_abs();
        self.metrics.answered(question.method.as_str(), code, took);
        answer
    }

    fn message(
        &self,
        question: &Question,
        accept: &str,
        shown: &Shown,
    ) -> Result<HttpRequest<Full<Bytes>>, Status> {
        let mut message = HttpRequest::builder()
            .method(&question.method)
            .uri(format!("{}{}", self.base, question.path))
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::ACCEPT, accept)
            .header(header::ACCEPT_ENCODING, GZIP);
        if let Some(kind) = question.content_type {
            message = message.header(header::CONTENT_TYPE, kind);
        }
        if let Some(header) = &shown.header {
            message = message.header(header::AUTHORIZATION, header);
        }
        if let (Some(user), Some(_)) = (&question.user, &self.carrier) {
            message = message.extension(user.clone());
        }
        for (name, value) in self.impersonate.iter() {
            message = message.header(name, value);
        }
        let message = message.body(Full::new(question.body.clone()));
        message.map_err(|error| Status::bad_request(format!("cannot ask for {:?}: {error}", question.path)))
    }
}

impl Serve for Http {
    fn call(&self, request: Request) -> Reply<'_> {
        Box::pin(self.ask(request))
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Http").field(&self.base).finish()
    }
}

// === impl Lines ===

impl Lines {
    fn new(connection: &Connection) -> Result<Self, Error> {
        let connector = Arc::new(Connector::new(connection)?);
        Ok(Self {
            connection: connection.clone(),
            current: Mutex::new(Current {
                certificate: None,
                connector,
            }),
        })
    }

    /// The connections of one who shows this certificate. Those of the last are closed when their answers are read.
    fn connector(&self, shown: &Shown) -> Result<Arc<Connector>, Error> {
        let mut current = self.current.lock();
        if current.certificate != shown.certificate {
            let mut connection = self.connection.clone();
            if let Some(certificate) = &shown.certificate {
                let (chain, key) = (certificate.0.clone().into(), certificate.1.clone().into());
                connection.identity = Identity::Certificate { chain, key };
            }
            *current = Current {
                certificate: shown.certificate.clone(),
                connector: Arc::new(Connector::new(&connection)?),
            };
        }
        Ok(current.connector.clone())
    }
}

/// On whose behalf the connection asks.
fn impersonate(connection: &Connection) -> Result<Arc<[(HeaderName, HeaderValue)]>, Error> {
    let Some(other) = &connection.impersonate else {
        return Ok(Arc::default());
    };
    let mut headers = vec![("impersonate-user".to_owned(), &other.user)];
    if !other.uid.is_empty() {
        headers.push(("impersonate-uid".to_owned(), &other.uid));
    }
    headers.extend(
        other
            .groups
            .iter()
            .map(|group| ("impersonate-group".to_owned(), group)),
    );
    for (key, values) in &other.extra {
        let name = format!("impersonate-extra-{}", question::escaped(&key.to_lowercase()));
        headers.extend(values.iter().map(|value| (name.clone(), value)));
    }
    let parse = |(name, value): (String, &String)| {
        let bad = || Error::Impersonate(value.clone());
        let parsed = name.parse::<HeaderName>().map_err(|_| bad())?;
        Ok((parsed, HeaderValue::from_str(value).map_err(|_| bad())?))
    };
    headers.into_iter().map(parse).collect()
}

#[cfg(test)]
mod tests;
