//! Carries a request to a place and the answer back; after an upgrade, bytes both ways until one side ends.

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

use super::Place;
use crate::body::{Body, Pieces};
use crate::chain::Exchange;
use crate::serve::Shared;

/// What a place answers.
pub(super) type Answer = Response<Incoming>;

/// How much of an error is read.
const ERROR_BYTES: usize = 2048;

/// Headers that are between a caller and this server only.
const OWN: [&str; 9] = [
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

/// A request on its way to a place.
pub(super) struct Question {
    request: Request<Either<Incoming, Empty<Bytes>>>,
}

impl Question {
    /// A request without headers or a body.
    pub(super) fn new(method: Method, path: &str, query: &str) -> Self {
        let mut request = Request::new(Either::Right(Empty::new()));
        *request.method_mut() = method;
        *request.uri_mut() = uri(path, query);
        Self { request }
    }

    /// A caller's request for another path. Who the caller is stays here.
    pub(super) fn of(head: &Parts, path: &str, query: &str) -> Self {
        let mut question = Self::new(head.method.clone(), path, query);
        let headers = question.request.headers_mut();
        for (name, value) in &head.headers {
            if !is_own(name) {
                headers.append(name, value.clone());
            }
        }
        if let Some(upgrade) = head.headers.get(UPGRADE) {
            headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(UPGRADE, upgrade.clone());
        }
        question
    }

    pub(super) fn with_body(mut self, body: Incoming) -> Self {
        *self.request.body_mut() = Either::Left(body);
        self
    }

    pub(super) fn path_and_query(&self) -> String {
        self.request.uri().to_string()
    }
}

/// Whether a header concerns this server only: by its name, or because it says on whose behalf something is asked.
fn is_own(name: &HeaderName) -> bool {
    OWN.contains(&name.as_str()) || name.as_str().starts_with("impersonate-")
}

fn uri(path: &str, query: &str) -> http::Uri {
    let whole = match query {
        "" => path.to_owned(),
        query => format!("{path}?{query}"),
    };
    whole.parse().unwrap_or_else(|_| http::Uri::from_static("/"))
}

/// A query of these pairs.
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

/// Asks a place and waits for the head of its answer.
pub(super) async fn ask(shared: &Shared, place: Place, mut question: Question) -> io::Result<Answer> {
    let host = HeaderValue::try_from(place.to_string()).map_err(io::Error::other)?;
    question.request.headers_mut().insert(HOST, host);
    let stream = shared.connect.connect(place).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    let stop = shared.stop.clone();
    shared.spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            ended = connection.with_upgrades() => if let Err(reason) = ended {
                tracing::debug!(%reason, "a connection to where something runs ended early");
            },
        }
    });
    sender
        .send_request(question.request)
        .await
        .map_err(io::Error::other)
}

/// Asks a place and gives its answer to the caller.
pub(super) async fn pass_on(
    exchange: &Exchange<'_>,
    place: Place,
    question: Question,
) -> io::Result<Response<Body>> {
    let shared = exchange.shared;
    let mut answer = ask(shared, place, question).await?;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let theirs = hyper::upgrade::on(&mut answer);
        let ours = exchange.head.extensions.get::<OnUpgrade>().cloned();
        join(shared, ours, theirs);
        let mut response = Response::new(Body::Empty);
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *response.headers_mut() = answer.headers().clone();
        return Ok(response);
    }
    let (status, headers) = (answer.status(), without_own(answer.headers()));
    let mut response = Response::new(body(answer));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// What of the headers is not between two parties only.
pub(crate) fn without_own(headers: &HeaderMap) -> HeaderMap {
    let kept = headers.iter().filter(|(name, _)| !is_own(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Copies bytes between two connections once both are free for it.
pub(crate) fn join(shared: &Shared, ours: Option<OnUpgrade>, theirs: OnUpgrade) {
    let Some(ours) = ours else { return };
    let stop = shared.stop.clone();
    let copied = async move {
        let (ours, theirs) = tokio::try_join!(ours, theirs).map_err(io::Error::other)?;
        let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
        tokio::io::copy_bidirectional(&mut ours, &mut theirs).await
    };
    shared.spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            ended = copied => if let Err(reason) = ended {
                tracing::debug!(%reason, "a stream ended early");
            },
        }
    });
}

/// The body of an answer as a body of ours.
pub(super) fn body(answer: Answer) -> Body {
    Body::Pieces(Box::pin(Passed(answer.into_body())))
}

/// The beginning of an answer's body, as text.
pub(super) async fn text(answer: Answer) -> String {
    let read = Limited::new(answer.into_body(), ERROR_BYTES).collect().await;
    let bytes = read.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A body that comes from elsewhere.
struct Passed(Incoming);

impl Pieces for Passed {
    fn poll_piece(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
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
    fn a_query_is_safe_to_send() {
        assert_eq!(
            encode(&[("a", "1"), ("command", "echo a&b=c d")]),
            "a=1&command=echo%20a%26b%3Dc%20d"
        );
        assert_eq!(encode(&[]), "");
    }

    #[test]
    fn who_the_caller_is_is_not_passed_on() {
        let request = Request::get("/x")
            .header("Authorization", "Bearer secret")
            .header("Impersonate-User", "a")
            .header("Connection", "Upgrade")
            .header("Upgrade", "SPDY/3.1")
            .header("X-Stream-Protocol-Version", "v4.channel.k8s.io")
            .body(())
            .unwrap();
        let question = Question::of(&request.into_parts().0, "/exec/a/p/c", "input=1");
        let headers = question.request.headers();
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["connection", "upgrade", "x-stream-protocol-version"]);
        assert_eq!(question.path_and_query(), "/exec/a/p/c?input=1");
    }
}
