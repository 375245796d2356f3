//! [`Http`]: [`Serve`] for a remote server, over HTTPS.
//!
//! All requests share one HTTP/2 connection; over HTTP/1.1 there are as many connections as concurrent requests. The server
//! authenticates the credentials of the connection: the user in a request is ignored.
//!
//! Bodies are JSON, which loses no fields, or protobuf on request: see [`Http::protobuf`].
//!
//! A request that is rejected with `Retry-After` is retried after that time, ten times at most; one that is rejected with
//! 401 is retried once with refreshed credentials.

mod connect;
mod credentials;
mod encoding;
mod exec;
mod gzip;
mod metrics;
mod proxy;
mod rate_limit;
mod request;
mod response;
pub mod tls;
mod watch;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ::http::uri::InvalidUri;
use ::http::{HeaderName, HeaderValue, Request as HttpRequest, header};
use bytes::Bytes;
use futures_core::future::BoxFuture;
use http_body_util::Full;
use parking_lot::Mutex;
use setpoint_api::{Clock, Request, Response, Serve, ServeFuture, Status, SystemClock};

use crate::kubeconfig::{Connection, Identity};
use connect::{Connector, PooledResponse};
use credentials::{Certificate, Credentials, RequestCredentials};
use encoding::{Projection, ResourceFormats, WireFormat};
use rate_limit::TokenBucket;
use request::EncodedRequest;
use response::ResponseError;

pub use exec::{ExecOutput, ExecTarget};
pub use metrics::Metrics;
pub use rate_limit::RateLimit;

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
/// let client = Client::from_http(http.protobuf());
/// let namespace = client.all::<Namespace>().get("default").await?;
/// assert_eq!(namespace.shared()?.status.as_ref().unwrap().phase.as_deref(), Some("Active"));
/// assert!(client.metrics_text().contains("rest_client_requests_total"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Http {
    /// Prefix of every path: scheme, host and the base path of the server.
    base: String,
    credentials: Arc<Credentials>,
    /// The impersonation headers.
    impersonate: Arc<[(HeaderName, HeaderValue)]>,
    pool: Arc<ConnectionPool>,
    projection: Projection,
    formats: Arc<ResourceFormats>,
    rate_limiter: Option<Arc<TokenBucket>>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    /// Sends the requests instead of `pool`, if set.
    transport: Option<Transport>,
}

/// Caller-supplied transport: sends a request over its own connections. The requesting user is in the extensions of the
/// request, as `Arc<User>`.
pub type Transport = Arc<dyn Fn(HttpRequest<Full<Bytes>>) -> ResponseFuture + Send + Sync>;

/// The future of a response from a [`Transport`].
pub type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<::http::Response<hyper::body::Incoming>, Status>> + Send>>;

/// The connections to the server. They are replaced when an exec plugin returns another client certificate.
struct ConnectionPool {
    connection: Connection,
    active: Mutex<ActiveConnector>,
}

/// The connector for this client certificate, or for that of the connection.
struct ActiveConnector {
    certificate: Option<Certificate>,
    connector: Arc<Connector>,
}

/// Why a connection is invalid.
#[allow(missing_docs, reason = "the messages document them")]
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
    #[error("the token has characters that are invalid in an HTTP header")]
    Token,
    #[error("unsupported proxy URL {0:?}: only http:// is supported")]
    Proxy(String),
    #[error("cannot impersonate {0:?}: it has characters that are invalid in an HTTP header")]
    Impersonate(String),
}

const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("setpoint/", env!("CARGO_PKG_VERSION")));
const GZIP: HeaderValue = HeaderValue::from_static("gzip");
/// How often a request is retried after `Retry-After`.
const MAX_RETRIES: usize = 10;

// === impl Http ===

impl Http {
    /// Connects on the first request.
    pub fn new(connection: &Connection) -> Result<Self, Error> {
        Self::with_clock(connection, Arc::new(SystemClock::new()))
    }

    /// The same with another clock, which is used for the expiry of credentials and for retries.
    pub fn with_clock(connection: &Connection, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        Ok(Self {
            base: connection.server.trim_end_matches('/').to_owned(),
            credentials: Arc::new(Credentials::new(connection, clock.clone())?),
            impersonate: impersonate(connection)?,
            pool: Arc::new(ConnectionPool::new(connection)?),
            projection: Projection::Full,
            formats: Arc::default(),
            rate_limiter: None,
            clock,
            metrics: Metrics::default(),
            transport: None,
        })
    }

    /// A client over a caller-supplied transport (the aggregator's pooled connections), which gets the requesting user.
    pub fn with_transport(
        transport: impl Fn(HttpRequest<Full<Bytes>>) -> ResponseFuture + Send + Sync + 'static,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let connection = Connection {
            server: "http://transport".to_owned(),
            ..Connection::default()
        };
        let transport: Option<Transport> = Some(Arc::new(transport));
        Ok(Self {
            transport,
            ..Self::with_clock(&connection, clock)?
        })
    }

    /// The same server with a client-side rate limit. By default there is none: servers have priority and fairness.
    #[must_use]
    pub fn with_rate_limit(self, rate: RateLimit) -> Self {
        let bucket = Some(Arc::new(TokenBucket::new(rate, self.clock.clone())));
        Self {
            rate_limiter: bucket,
            ..self
        }
    }

    /// The same server, with nothing but the metadata of objects.
    #[must_use]
    pub fn metadata_only(&self) -> Self {
        Self {
            projection: Projection::Metadata,
            ..self.clone()
        }
    }

    /// The same server with protobuf bodies where the server and the kind support it, and JSON elsewhere: about half the
    /// bytes, for more work in the client, as objects are cached as JSON. Protobuf drops fields unknown to this program, so
    /// a client that writes back whole objects should stay with JSON.
    #[must_use]
    pub fn protobuf(&self) -> Self {
        Self {
            formats: Arc::new(ResourceFormats::with_protobuf()),
            ..self.clone()
        }
    }

    /// The metrics of this client and of all its clones.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The metrics in the Prometheus text format.
    pub fn metrics_text(&self) -> String {
        let host = self
            .base
            .split_once("://")
            .map_or(self.base.as_str(), |(_, host)| host);
        self.metrics.to_text(host)
    }

    /// The response body of a GET of a non-resource path, such as `/version`.
    pub async fn get(&self, path: &str) -> Result<Bytes, Status> {
        self.get_as(path, encoding::JSON).await
    }

    /// The same with this `Accept` header.
    pub async fn get_as(&self, path: &str, accept: &'static str) -> Result<Bytes, Status> {
        self.send_raw(EncodedRequest::get(path), accept).await
    }

    /// The response body of a POST of a JSON body to a non-resource path, such as that of a webhook.
    pub async fn post(&self, path: &str, body: impl Into<Bytes>) -> Result<Bytes, Status> {
        let encoded = EncodedRequest::post(path, body.into());
        self.send_raw(encoded, encoding::JSON).await
    }

    // Boxed: the body of an `async fn` is compiled by each crate that awaits it, and this one contains HTTP and TLS.
    fn send_raw(
        &self,
        encoded: EncodedRequest,
        accept: &'static str,
    ) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(async move {
            let mut attempts = 0;
            loop {
                let pooled = self.send(&encoded, accept).await?;
                match response::read_bytes(pooled).await {
                    Ok(bytes) => return Ok(bytes),
                    Err(error) => attempts = self.wait_to_retry(error, attempts).await?,
                }
            }
        })
    }

    /// Sends the request in the format of the resource, and falls back to JSON if the server does not support protobuf.
    async fn call_negotiated(&self, request: Request) -> Result<Response, Status> {
        let resource = &request.target.resource;
        let format = self.formats.for_resource(resource);
        match self.call_as(&request, format).await {
            Err(status) if format == WireFormat::Protobuf && encoding::is_unsupported(&status) => {
                tracing::debug!(?resource, %status, "the server does not support protobuf for this resource");
                self.formats.fall_back_to_json(resource);
                self.call_as(&request, WireFormat::Json).await
            }
            outcome => outcome,
        }
    }

    async fn call_as(&self, request: &Request, format: WireFormat) -> Result<Response, Status> {
        let encoded = EncodedRequest::encode(request, format);
        let accept = format.accept(self.projection, &request.verb);
        let mut attempts = 0;
        loop {
            let pooled = self.send(&encoded, accept).await?;
            match response::read(pooled, &request.verb).await {
                Ok(response) => return Ok(response),
                Err(error) => attempts = self.wait_to_retry(error, attempts).await?,
            }
        }
    }

    /// Waits as long as `Retry-After` requests; returns the error without it, or after too many retries.
    async fn wait_to_retry(&self, error: ResponseError, attempts: usize) -> Result<usize, Status> {
        match error.retry_after {
            Some(seconds) if attempts < MAX_RETRIES => {
                tracing::debug!(status = %error.status, seconds, "retrying after the time in Retry-After");
                self.clock.sleep(Duration::from_secs(seconds)).await;
                self.metrics.record_retry();
                Ok(attempts + 1)
            }
            _ => Err(error.status),
        }
    }

    /// Sends a request, and once more with refreshed credentials if the server rejects the first.
    async fn send(&self, encoded: &EncodedRequest, accept: &str) -> Result<PooledResponse, Status> {
        if let Some(bucket) = &self.rate_limiter {
            self.metrics.record_rate_limit_wait(bucket.wait().await);
        }
        let credentials = self.credentials.current().await?;
        let pooled = self.send_with(encoded, accept, &credentials).await?;
        let is_unauthorized = pooled.response.status() == ::http::StatusCode::UNAUTHORIZED;
        if !is_unauthorized || !self.credentials.invalidate(&credentials) {
            return Ok(pooled);
        }
        let renewed = self.credentials.current().await?;
        if renewed.header == credentials.header && renewed.certificate == credentials.certificate {
            return Ok(pooled);
        }
        drop(pooled);
        self.send_with(encoded, accept, &renewed).await
    }

    async fn send_with(
        &self,
        encoded: &EncodedRequest,
        accept: &str,
        credentials: &RequestCredentials,
    ) -> Result<PooledResponse, Status> {
        let connector = self.pool.connector(credentials).map_err(Status::internal)?;
        let (message, started) = (
            self.build_request(encoded, accept, credentials)?,
            self.clock.now(),
        );
        let pooled = match &self.transport {
            None => connector.send(message).await,
            Some(transport) => transport(message)
                .await
                .map(|response| connector.unpooled(response)),
        };
        let code = pooled
            .as_ref()
            .ok()
            .map(|pooled| pooled.response.status().as_u16());
        let took = self.clock.now().duration_since(started).unsigned_abs();
        self.metrics.record_request(encoded.method.as_str(), code, took);
        pooled
    }

    fn build_request(
        &self,
        encoded: &EncodedRequest,
        accept: &str,
        credentials: &RequestCredentials,
    ) -> Result<HttpRequest<Full<Bytes>>, Status> {
        let mut message = HttpRequest::builder()
            .method(&encoded.method)
            .uri(format!("{}{}", self.base, encoded.path))
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::ACCEPT, accept)
            .header(header::ACCEPT_ENCODING, GZIP);
        if let Some(kind) = encoded.content_type {
            message = message.header(header::CONTENT_TYPE, kind);
        }
        if let Some(header) = &credentials.header {
            message = message.header(header::AUTHORIZATION, header);
        }
        if let (Some(user), Some(_)) = (&encoded.user, &self.transport) {
            message = message.extension(user.clone());
        }
        for (name, value) in self.impersonate.iter() {
            message = message.header(name, value);
        }
        let message = message.body(Full::new(encoded.body.clone()));
        message
            .map_err(|error| Status::bad_request(format!("invalid request path {:?}: {error}", encoded.path)))
    }
}

impl Serve for Http {
    fn call(&self, request: Request) -> ServeFuture<'_> {
        Box::pin(self.call_negotiated(request))
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Http").field(&self.base).finish()
    }
}

// === impl ConnectionPool ===

impl ConnectionPool {
    fn new(connection: &Connection) -> Result<Self, Error> {
        let connector = Arc::new(Connector::new(connection)?);
        Ok(Self {
            connection: connection.clone(),
            active: Mutex::new(ActiveConnector {
                certificate: None,
                connector,
            }),
        })
    }

    /// The connector for this client certificate. Connections of the last one are closed when their responses are read.
    fn connector(&self, credentials: &RequestCredentials) -> Result<Arc<Connector>, Error> {
        let mut current = self.active.lock();
        if current.certificate != credentials.certificate {
            let mut connection = self.connection.clone();
            if let Some(certificate) = &credentials.certificate {
                let (chain, key) = (certificate.0.clone().into(), certificate.1.clone().into());
                connection.identity = Identity::Certificate { chain, key };
            }
            *current = ActiveConnector {
                certificate: credentials.certificate.clone(),
                connector: Arc::new(Connector::new(&connection)?),
            };
        }
        Ok(current.connector.clone())
    }
}

/// The impersonation headers of a connection.
fn impersonate(connection: &Connection) -> Result<Arc<[(HeaderName, HeaderValue)]>, Error> {
    let Some(impersonation) = &connection.impersonate else {
        return Ok(Arc::default());
    };
    let mut headers = vec![("impersonate-user".to_owned(), &impersonation.user)];
    if !impersonation.uid.is_empty() {
        headers.push(("impersonate-uid".to_owned(), &impersonation.uid));
    }
    headers.extend(
        impersonation
            .groups
            .iter()
            .map(|group| ("impersonate-group".to_owned(), group)),
    );
    for (key, values) in &impersonation.extra {
        let name = format!("impersonate-extra-{}", request::escaped(&key.to_lowercase()));
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
