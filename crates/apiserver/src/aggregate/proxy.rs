//! Reverse proxy: forwards requests to the aggregated API server that serves them.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderName, LOCATION, UPGRADE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use setpoint_api::{Status, User};

use super::connection_pool::{OutgoingRequest, PooledBody};
use super::{Aggregator, RegisteredRemote, remote_headers};
use crate::body::Body;
use crate::chain::Exchange;
use crate::connect::{BackendAddress, relay};
use crate::filters::audit_id::AUDIT_ID;
use crate::request::options::StatusError;
use crate::request::{RequestInfo, deadline};
use crate::respond;

/// Timeout of a version's APIResourceList: clients fetch all of them before anything else.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an in-process request waits for the response head.
const IN_PROCESS_TIMEOUT: Duration = Duration::from_secs(30);

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Future of the response to an in-process request.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Incoming>, Status>> + Send>>;

/// Forwards a client's request and returns the response unchanged, errors included.
pub(crate) async fn forward(
    exchange: &Exchange<'_>,
    registered: &RegisteredRemote,
    user: &User,
    body: &mut Option<Incoming>,
) -> Result<Response<Body>, StatusError> {
    let aggregator = &exchange.shared.aggregator;
    let Some(backend) = aggregator.backend(registered) else {
        return Ok(unavailable("service unavailable"));
    };
    let mut request = proxied_request(exchange, user)?;
    if let Some(body) = body.take() {
        *request.body_mut() = Either::Left(body);
    }
    let sent = registered.pool.send(backend, request);
    let response = tokio::select! {
        biased;
        response = sent => response,
        timed_out = timeout_response(exchange) => return timed_out,
    };
    match response {
        Err(error) => Ok(unavailable(&error.to_string())),
        Ok(response) if is_redirect(&response) => {
            let message = "the backend attempted to redirect this request, which is not permitted";
            Ok(respond::text(StatusCode::BAD_GATEWAY, message))
        }
        Ok(response) => Ok(proxied_response(exchange, response)),
    }
}

impl Aggregator {
    /// The current address of a remote; `None` if it is unavailable or its Service cannot be resolved.
    fn backend(&self, registered: &RegisteredRemote) -> Option<BackendAddress> {
        let remote = &registered.remote;
        if !remote.available {
            return None;
        }
        let resolved = (self.resolve)(&remote.service);
        resolved
            .inspect_err(|error| {
                tracing::warn!(
                    name = remote.name,
                    error,
                    "cannot resolve the service of an APIService"
                )
            })
            .ok()
    }

    /// A transport for in-process requests to remotes. The remote is found by the request's path; the user is in the
    /// request's extensions.
    pub fn transport(
        self: &Arc<Self>,
    ) -> impl Fn(Request<Full<Bytes>>) -> ResponseFuture + Send + Sync + 'static {
        let aggregator = self.clone();
        move |request| {
            let aggregator = aggregator.clone();
            Box::pin(async move { aggregator.send_in_process(request).await })
        }
    }

    async fn send_in_process(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Status> {
        let unavailable = || Status::unavailable("the server is currently unable to handle the request");
        let path = request.uri().path().strip_prefix("/apis/").unwrap_or_default();
        let mut segments = path.splitn(3, '/');
        let (group, version) = (
            segments.next().unwrap_or_default(),
            segments.next().unwrap_or_default(),
        );
        let registered = self
            .find_version(group, version)
            .ok_or_else(Status::no_such_resource)?;
        let backend = self.backend(&registered).ok_or_else(unavailable)?;
        let (mut head, body) = request.into_parts();
        if let Some(user) = head.extensions.remove::<Arc<User>>() {
            remote_headers::set(&mut head.headers, &user)?;
        }
        head.uri = relative(&head.uri);
        let request = Request::from_parts(head, Either::Right(body));
        let sent = registered.pool.send_once(&backend, request);
        let response = tokio::select! {
            response = sent => response,
            () = self.clock.sleep(IN_PROCESS_TIMEOUT) => Err(io::ErrorKind::TimedOut.into()),
        };
        response.map_err(|error| {
            tracing::debug!(name = registered.remote.name, %error, "request to an aggregated API server failed");
            unavailable()
        })
    }
}

/// Waits for the request's deadline and returns the response for it; never returns for long-running requests.
async fn timeout_response(exchange: &Exchange<'_>) -> Result<Response<Body>, StatusError> {
    let clock = &exchange.shared.clock;
    if exchange.request_info.is_long_running() {
        return std::future::pending().await;
    }
    if matches!(exchange.request_info, RequestInfo::NonResource { .. }) {
        clock.sleep(DISCOVERY_TIMEOUT).await;
        return Ok(unavailable("context deadline exceeded"));
    }
    clock.sleep(deadline::read(exchange.query)?).await;
    let message = "Timeout: request did not complete within the allotted timeout";
    Err(Box::new(Status::timeout(message)))
}

/// The client's request as it is sent to the aggregated API server, still without its body.
fn proxied_request(exchange: &Exchange<'_>, user: &User) -> Result<OutgoingRequest, StatusError> {
    let head = exchange.head;
    let mut request = Request::new(empty());
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = relative(&head.uri);
    let headers = request.headers_mut();
    *headers = relay::forwarded_headers(&head.headers);
    if let Some(upgrade) = head.headers.get(UPGRADE) {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, upgrade.clone());
    }
    remote_headers::set(headers, user)?;
    headers.insert(&AUDIT_ID, exchange.audit_id.clone());
    add_forwarded_for(headers, exchange);
    Ok(request)
}

/// Appends the client's address to `X-Forwarded-For`.
fn add_forwarded_for(headers: &mut HeaderMap, exchange: &Exchange<'_>) {
    let Some(address) = exchange.peer.address else {
        return;
    };
    let previous = headers.get_all(FORWARDED_FOR).iter();
    let mut addresses = previous.fold(Vec::new(), |mut addresses, one| {
        addresses.extend_from_slice(one.as_bytes());
        addresses.extend_from_slice(b", ");
        addresses
    });
    addresses.extend_from_slice(address.ip().to_string().as_bytes());
    if let Ok(value) = HeaderValue::from_bytes(&addresses) {
        headers.insert(FORWARDED_FOR, value);
    }
}

/// Path and query without scheme and host, not re-encoded.
fn relative(uri: &Uri) -> Uri {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    path.parse().unwrap_or_else(|_| Uri::from_static("/"))
}

fn empty() -> Either<Incoming, Full<Bytes>> {
    Either::Right(Full::default())
}

fn is_redirect<B>(response: &Response<B>) -> bool {
    response.status().is_redirection() && response.headers().contains_key(LOCATION)
}

fn proxied_response(exchange: &Exchange<'_>, mut response: Response<PooledBody>) -> Response<Body> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let backend = hyper::upgrade::on(&mut response);
        let client = exchange.head.extensions.get::<OnUpgrade>().cloned();
        relay::join_upgraded(exchange.shared, client, backend);
        return response.map(|_| Body::Empty);
    }
    let headers = relay::forwarded_headers(response.headers());
    let mut response = response.map(|body| Body::Stream(Box::pin(body)));
    *response.headers_mut() = headers;
    response
}

fn unavailable(reason: &str) -> Response<Body> {
    respond::text(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n"))
}
