//! Client of webhooks over HTTPS: the implementation of [`WebhookClient`] for admission and conversion webhooks.
//!
//! It uses the connection pools, the TLS configuration and the service resolver of the aggregation layer. A webhook by
//! URL is called at that address, a webhook by Service at one of its endpoints, where its certificate must be valid for
//! `<name>.<namespace>.svc`. Webhooks by URL are called through the proxy of the environment, if there is one. A webhook is not trusted: its response is bounded in size, the whole call in time, and
//! redirects are not followed. Errors have the text of Kubernetes' client, which is mostly Go's.

mod address;
mod go_text;
mod proxy;
mod status_text;

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use parking_lot::Mutex;
use setpoint_api::Clock;
use setpoint_registry_api::{WebhookClient, WebhookEndpoint, WebhookError, WebhookFuture, WebhookRequest};
use tokio_util::sync::CancellationToken;

use crate::aggregate::connection_pool::{ConnectionPool, FixedHost, OutgoingRequest, PooledBody};
use crate::aggregate::{ConnectionTasks, ServiceResolver, TlsTrust, client_tls};
use crate::body::ByteStream;
use address::WebhookUrl;

pub(crate) use proxy::Proxy;
pub use proxy::ProxyConfig;

/// Maximum size of a response. A patch of the largest object fits several times.
const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// How often a call is repeated at most, as Kubernetes' client does.
const MAX_RETRIES: usize = 10;

/// Maximum number of endpoints with pooled connections.
const MAX_POOLS: usize = 200;

/// The user agent that Kubernetes sends to webhooks, by which they may recognize the API server.
const AGENT: HeaderValue = HeaderValue::from_static("kube-apiserver-admission");

/// Client of webhooks over HTTPS.
pub struct HttpsWebhookClient {
    resolve: ServiceResolver,
    clock: Arc<dyn Clock>,
    proxies: ProxyConfig,
    pools: Mutex<HashMap<PoolKey, Arc<ConnectionPool>>>,
    tasks: ConnectionTasks,
}

/// The host and port of a webhook's URL, and the certificate authorities of its certificate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PoolKey {
    host: String,
    ca_bundle: Bytes,
}

impl HttpsWebhookClient {
    /// A client without connections. [`HttpsWebhookClient::run`] closes the ones that it opens.
    pub fn new(resolve: ServiceResolver, clock: Arc<dyn Clock>, proxies: ProxyConfig) -> Arc<Self> {
        Arc::new(Self {
            resolve,
            clock,
            proxies,
            pools: Mutex::default(),
            tasks: ConnectionTasks::default(),
        })
    }

    /// Waits for the stop, then closes every connection.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        stop.cancelled().await;
        self.tasks.end().await;
    }

    async fn call(&self, endpoint: &WebhookEndpoint, request: WebhookRequest) -> Result<Bytes, WebhookError> {
        let url = WebhookUrl::parse(&endpoint.address, &request.query).map_err(transport_error)?;
        let mut deadline = std::pin::pin!(self.clock.sleep(request.timeout));
        let sent = self.send_patiently(endpoint, &url, request.body);
        let sent = before(deadline.as_mut(), sent).await;
        let response = sent.map_err(|why| transport_error(format!("Post {:?}: {why}", url.text)))?;
        let status = response.status();
        let content_type = response.headers().get(CONTENT_TYPE).cloned();
        let read = before(deadline, read(response)).await;
        let body = read.map_err(|why| {
            transport_error(format!(
                "unexpected error when reading response body. Please retry. Original error: {why}"
            ))
        })?;
        match status {
            code if (StatusCode::OK..=StatusCode::PARTIAL_CONTENT).contains(&code) && !body.is_empty() => {
                Ok(body)
            }
            code => Err(WebhookError {
                message: status_text::message(code, &body, content_type.as_ref()),
                status: Some(code.as_u16()).filter(|code| *code >= 300),
            }),
        }
    }

    /// Sends a request, and again as long as the webhook requests that by `Retry-After`, at most [`MAX_RETRIES`] times.
    async fn send_patiently(
        &self,
        endpoint: &WebhookEndpoint,
        url: &WebhookUrl,
        body: Bytes,
    ) -> Result<Response<PooledBody>, String> {
        for _ in 0..MAX_RETRIES {
            let response = self.send(endpoint, url, body.clone()).await?;
            match retry_after(&response) {
                Some(pause) => self.clock.sleep(pause).await,
                None => return Ok(response),
            }
        }
        self.send(endpoint, url, body).await
    }

    async fn send(
        &self,
        endpoint: &WebhookEndpoint,
        url: &WebhookUrl,
        body: Bytes,
    ) -> Result<Response<PooledBody>, String> {
        let backend = url.backend(&self.resolve)?;
        let pool = self.pool(endpoint, url);
        let sent = pool.send(backend, post_request(url, body)).await;
        sent.map_err(|error| go_text::transport(&error))
    }

    /// The pool of an endpoint. Beyond the maximum the pools start again: a few connections are opened once more.
    fn pool(&self, endpoint: &WebhookEndpoint, url: &WebhookUrl) -> Arc<ConnectionPool> {
        let key = PoolKey {
            host: url.host_and_port.clone(),
            ca_bundle: endpoint.ca_bundle.clone(),
        };
        let mut pools = self.pools.lock();
        if pools.len() >= MAX_POOLS && !pools.contains_key(&key) {
            pools.clear();
        }
        let pool = pools.entry(key).or_insert_with(|| {
            let trust = match endpoint.ca_bundle.is_empty() {
                true => TlsTrust::System,
                false => TlsTrust::CaBundle(endpoint.ca_bundle.to_vec()),
            };
            let tls = client_tls::config(&trust, None).map(|mut tls| {
                tls.alpn_protocols = vec![b"http/1.1".to_vec()];
                tls
            });
            let shared = (self.clock.clone(), self.tasks.clone());
            let pool = ConnectionPool::new(tls, url.server_name.clone(), shared);
            Arc::new(match url.proxy(&self.proxies) {
                Some(proxy) => pool.with_proxy(proxy.clone()),
                None => pool,
            })
        });
        pool.clone()
    }
}

impl WebhookClient for HttpsWebhookClient {
    fn post<'a>(&'a self, endpoint: &'a WebhookEndpoint, request: WebhookRequest) -> WebhookFuture<'a> {
        Box::pin(self.call(endpoint, request))
    }
}

impl fmt::Debug for HttpsWebhookClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpsWebhookClient")
            .field("pools", &self.pools.lock().len())
            .finish_non_exhaustive()
    }
}

/// How long to wait before another try, if a response of too many requests or of a server error has it.
fn retry_after(response: &Response<PooledBody>) -> Option<Duration> {
    let status = response.status();
    let is_retried = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    let seconds = response.headers().get(RETRY_AFTER).filter(|_| is_retried)?;
    seconds.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

/// Waits for a step of a call until the deadline.
async fn before<T>(
    deadline: Pin<&mut impl Future<Output = ()>>,
    step: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    tokio::select! {
        biased;
        outcome = step => outcome,
        () = deadline => Err("context deadline exceeded".to_owned()),
    }
}

fn post_request(url: &WebhookUrl, body: Bytes) -> OutgoingRequest {
    let mut request = Request::new(Either::Right(Full::new(body)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = url.path_and_query.clone();
    let json = HeaderValue::from_static("application/json");
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
    headers.insert(CONTENT_TYPE, json);
    headers.insert(USER_AGENT, AGENT);
    request.extensions_mut().insert(FixedHost(url.host.clone()));
    request
}

/// Reads a response body to its end, which returns its connection to the pool.
async fn read(response: Response<PooledBody>) -> Result<Bytes, String> {
    let mut body = response.into_body();
    let mut read = BytesMut::new();
    while let Some(chunk) = poll_fn(|context| Pin::new(&mut body).poll_chunk(context)).await {
        let chunk = chunk.map_err(|error| go_text::body(&error))?;
        if read.len() + chunk.len() > MAX_RESPONSE_BYTES {
            return Err(format!("the response is larger than {MAX_RESPONSE_BYTES} bytes"));
        }
        read.extend_from_slice(&chunk);
    }
    Ok(read.freeze())
}

fn transport_error(message: String) -> WebhookError {
    WebhookError {
        message,
        status: None,
    }
}

#[cfg(test)]
mod tests;
