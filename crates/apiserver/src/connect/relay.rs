//! Forwards a request to a backend and returns its response; after an upgrade, copies bytes both ways until one side
//! ends.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONNECTION, HOST, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Either, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::BackendAddress;
use crate::body::{Body, ByteStream};
use crate::chain::Exchange;
use crate::view::View;

/// A backend's response.
pub(super) type BackendResponse = Response<Incoming>;

/// Maximum length of an error message read from a backend.
const ERROR_BYTES: usize = 2048;

/// Headers that are not forwarded: hop-by-hop headers and credentials.
const NOT_FORWARDED: [&str; 9] = [
    "authorization",
    "connection",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A request to a backend.
pub(super) struct BackendRequest {
    request: Request<Either<Incoming, Empty<Bytes>>>,
}

impl BackendRequest {
    /// A request without headers or a body.
    pub(super) fn new(method: Method, path: &str, query: &str) -> Self {
        let mut request = Request::new(Either::Right(Empty::new()));
        *request.method_mut() = method;
        *request.uri_mut() = uri(path, query);
        Self { request }
    }

    /// A client's request for another path, without its credentials.
    pub(super) fn of(head: &Parts, path: &str, query: &str) -> Self {
        let mut backend_request = Self::new(head.method.clone(), path, query);
        let headers = backend_request.request.headers_mut();
        for (name, value) in &head.headers {
            if is_forwarded(name) {
                headers.append(name, value.clone());
            }
        }
        if let Some(upgrade) = head.headers.get(UPGRADE) {
            headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(UPGRADE, upgrade.clone());
        }
        backend_request
    }

    pub(super) fn with_body(mut self, body: Option<Incoming>) -> Self {
        if let Some(body) = body {
            *self.request.body_mut() = Either::Left(body);
        }
        self
    }

    /// Names the path that the client has requested.
    pub(super) fn with_forwarded_uri(mut self, path: &str) -> Self {
        if let Ok(path) = HeaderValue::try_from(path) {
            self.request
                .headers_mut()
                .insert(HeaderName::from_static("x-forwarded-uri"), path);
        }
        self
    }

    pub(super) fn path_and_query(&self) -> String {
        self.request.uri().to_string()
    }
}

/// Whether a header is forwarded to a backend: all but hop-by-hop, credentials, impersonation and those in which an
/// authenticating proxy names the user.
fn is_forwarded(name: &HeaderName) -> bool {
    let name = name.as_str();
    !(NOT_FORWARDED.contains(&name) || name.starts_with("impersonate-") || name.starts_with("x-remote-"))
}

fn uri(path: &str, query: &str) -> http::Uri {
    let whole = match query {
        "" => path.to_owned(),
        query => format!("{path}?{query}"),
    };
    whole.parse().unwrap_or_else(|_| http::Uri::from_static("/"))
}

/// Encodes a query string.
pub(super) fn encode(pairs: &[(&str, &str)]) -> String {
    let mut query = String::new();
    for (name, value) in pairs {
        if !query.is_empty() {
            query.push('&');
        }
        query.push_str(name);
        query.push('=');
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    query.push(char::from(byte))
                }
                other => query.push_str(&format!("%{other:02X}")),
            }
        }
    }
    query
}

/// Sends a request to a backend and waits for the response head.
pub(super) async fn send(
    shared: &View,
    backend: BackendAddress,
    mut backend_request: BackendRequest,
) -> io::Result<BackendResponse> {
    let host = HeaderValue::try_from(backend.to_string()).map_err(io::Error::other)?;
    backend_request.request.headers_mut().insert(HOST, host);
    let stream = shared.connect.connect(backend).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    let stop = shared.stop.clone();
    shared.spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            ended = connection.with_upgrades() => if let Err(reason) = ended {
                tracing::debug!(%reason, "connection to a backend ended early");
            },
        }
    });
    sender
        .send_request(backend_request.request)
        .await
        .map_err(io::Error::other)
}

/// Sends a request to a backend and returns its response to the client.
pub(super) async fn forward(
    exchange: &Exchange<'_>,
    backend: BackendAddress,
    backend_request: BackendRequest,
) -> io::Result<Response<Body>> {
    let shared = exchange.shared;
    let mut backend_response = send(shared, backend, backend_request).await?;
    if backend_response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let backend = hyper::upgrade::on(&mut backend_response);
        let client = exchange.head.extensions.get::<OnUpgrade>().cloned();
        join_upgraded(shared, client, backend);
        let mut response = Response::new(Body::Empty);
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *response.headers_mut() = backend_response.headers().clone();
        return Ok(response);
    }
    let (status, headers) = (
        backend_response.status(),
        forwarded_headers(backend_response.headers()),
    );
    let mut response = Response::new(body(backend_response));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// The headers that are forwarded.
pub(crate) fn forwarded_headers(headers: &HeaderMap) -> HeaderMap {
    let forwarded = headers.iter().filter(|(name, _)| is_forwarded(name));
    forwarded
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Copies bytes between two upgraded connections.
pub(crate) fn join_upgraded(shared: &View, client: Option<OnUpgrade>, backend: OnUpgrade) {
    let Some(client) = client else { return };
    let stop = shared.stop.clone();
    let copied = async move {
        let (client, backend) = tokio::try_join!(client, backend).map_err(io::Error::other)?;
        let (mut client, mut backend) = (TokioIo::new(client), TokioIo::new(backend));
        tokio::io::copy_bidirectional(&mut client, &mut backend).await
    };
    shared.spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            ended = copied => if let Err(reason) = ended {
                tracing::debug!(%reason, "upgraded stream ended early");
            },
        }
    });
}

/// The body of a backend's response.
pub(super) fn body(backend_response: BackendResponse) -> Body {
    Body::Stream(Box::pin(IncomingBody(backend_response.into_body())))
}

/// The beginning of a response body, as text.
pub(super) async fn text(backend_response: BackendResponse) -> String {
    let read = Limited::new(backend_response.into_body(), ERROR_BYTES)
        .collect()
        .await;
    let bytes = read.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The streamed body of a backend's response.
struct IncomingBody(Incoming);

impl ByteStream for IncomingBody {
    fn poll_chunk(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            let frame = ready!(http_body::Body::poll_frame(Pin::new(&mut self.0), context));
            match frame.map(|frame| frame.map(http_body::Frame::into_data)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(io::Error::other(error)))),
                Some(Ok(Ok(data))) => return Poll::Ready(Some(Ok(data))),
                Some(Ok(Err(_trailers))) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_values_are_percent_encoded() {
        assert_eq!(
            encode(&[("a", "1"), ("command", "echo a&b=c d")]),
            "a=1&command=echo%20a%26b%3Dc%20d"
        );
        assert_eq!(encode(&[]), "");
    }

    #[test]
    fn credentials_are_not_forwarded() {
        let request = Request::get("/x")
            .header("Authorization", "Bearer secret")
            .header("Impersonate-User", "a")
            .header("X-Remote-User", "a")
            .header("Connection", "Upgrade")
            .header("Upgrade", "SPDY/3.1")
            .header("X-Stream-Protocol-Version", "v4.channel.k8s.io")
            .body(())
            .unwrap();
        let backend_request = BackendRequest::of(&request.into_parts().0, "/exec/a/p/c", "input=1");
        let headers = backend_request.request.headers();
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["connection", "upgrade", "x-stream-protocol-version"]);
        assert_eq!(backend_request.path_and_query(), "/exec/a/p/c?input=1");
    }
}
