//! Passes requests on to the server that answers them.

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

use super::line::{Asking, Reading};
use super::{Aggregator, Known, caller};
use crate::body::Body;
use crate::chain::Exchange;
use crate::connect::{Place, relay};
use crate::filters::audit::AUDIT_ID;
use crate::request::options::Refused;
use crate::request::{Place as Asked, deadline};
use crate::respond;

/// How long the list of resources of a version may take: clients ask for all of them before they do anything.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a request of this process may wait for the head of its answer.
const OWN_TIMEOUT: Duration = Duration::from_secs(30);

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The answer to come of a request that is carried to another server.
pub type Carrying = Pin<Box<dyn Future<Output = Result<Response<Incoming>, Status>> + Send>>;

/// Passes a caller's request on and gives it the answer. What the other server refuses is between the two.
pub(crate) async fn answer(
    exchange: &Exchange<'_>,
    known: &Known,
    user: &User,
    body: &mut Option<Incoming>,
) -> Result<Response<Body>, Refused> {
    let aggregator = &exchange.shared.aggregate;
    let Some(place) = aggregator.place(known) else {
        return Ok(unavailable("service unavailable"));
    };
    let body = body.take().map_or_else(empty, Either::Left);
    let asked = known.line.send(place, question(exchange, user, body));
    let answered = tokio::select! {
        biased;
        answered = asked => answered,
        told = too_late(exchange) => return told,
    };
    match answered {
        Err(error) => Ok(unavailable(&error.to_string())),
        Ok(answer) if is_redirect(&answer) => {
            let told = "the backend attempted to redirect this request, which is not permitted";
            Ok(respond::text(StatusCode::BAD_GATEWAY, told))
        }
        Ok(answer) => Ok(handed_on(exchange, answer)),
    }
}

impl Aggregator {
    /// Where a server is now; nowhere if it does not answer.
    fn place(&self, known: &Known) -> Option<Place> {
        let remote = &known.remote;
        if !remote.available {
            return None;
        }
        let found = (self.resolve)(&remote.service);
        found
            .inspect_err(|why| {
                tracing::warn!(name = remote.name, why, "cannot find the server behind a version")
            })
            .ok()
    }

    /// Carries requests of this process to the server that their path names. The caller is the user among the
    /// extensions of a request.
    pub fn carrier(self: &Arc<Self>) -> impl Fn(Request<Full<Bytes>>) -> Carrying + Send + Sync + 'static {
        let aggregator = self.clone();
        move |request| {
            let aggregator = aggregator.clone();
            Box::pin(async move { aggregator.carry(request).await })
        }
    }

    async fn carry(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Status> {
        let refused = || Status::unavailable("the server is currently unable to handle the request");
        let path = request.uri().path().strip_prefix("/apis/").unwrap_or_default();
        let mut parts = path.splitn(3, '/');
        let (group, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let known = self
            .find_version(group, version)
            .ok_or_else(Status::no_such_resource)?;
        let place = self.place(&known).ok_or_else(refused)?;
        let (mut head, body) = request.into_parts();
        if let Some(user) = head.extensions.remove::<Arc<User>>() {
            caller::name(&mut head.headers, &user);
        }
        head.uri = relative(&head.uri);
        let request = Request::from_parts(head, Either::Right(body));
        let asked = known.line.send_once(&place, request);
        let answered = tokio::select! {
            answered = asked => answered,
            () = self.clock.sleep(OWN_TIMEOUT) => Err(io::ErrorKind::TimedOut.into()),
        };
        answered.map_err(|error| {
            tracing::debug!(name = known.remote.name, %error, "another server does not answer");
            refused()
        })
    }
}

/// What is told to a caller whose answer does not come in time.
async fn too_late(exchange: &Exchange<'_>) -> Result<Response<Body>, Refused> {
    let clock = &exchange.shared.clock;
    if exchange.asked.is_long_running() {
        return std::future::pending().await;
    }
    if matches!(exchange.asked.place, Asked::Path(_)) {
        clock.sleep(DISCOVERY_TIMEOUT).await;
        return Ok(unavailable("context deadline exceeded"));
    }
    clock.sleep(deadline::read(exchange.query)?).await;
    let message = "Timeout: request did not complete within the allotted timeout";
    Err(Box::new(Status::timeout(message)))
}

/// The caller's request as the other server gets it.
fn question(exchange: &Exchange<'_>, user: &User, body: Either<Incoming, Full<Bytes>>) -> Asking {
    let head = exchange.head;
    let mut request = Request::new(body);
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = relative(&head.uri);
    let headers = request.headers_mut();
    *headers = relay::without_own(&head.headers);
    if let Some(upgrade) = head.headers.get(UPGRADE) {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, upgrade.clone());
    }
    caller::name(headers, user);
    headers.insert(&AUDIT_ID, exchange.id.clone());
    add_forwarded_for(headers, exchange);
    request
}

/// The addresses that a request has come by.
fn add_forwarded_for(headers: &mut HeaderMap, exchange: &Exchange<'_>) {
    let Some(address) = exchange.peer.address else {
        return;
    };
    let known = headers.get_all(FORWARDED_FOR).iter();
    let mut way: Vec<String> = known
        .filter_map(|one| one.to_str().ok())
        .map(str::to_owned)
        .collect();
    way.push(address.ip().to_string());
    if let Ok(way) = HeaderValue::try_from(way.join(", ")) {
        headers.insert(FORWARDED_FOR, way);
    }
}

/// The path and the query alone, as they were written.
fn relative(uri: &Uri) -> Uri {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    path.parse().unwrap_or_else(|_| Uri::from_static("/"))
}

fn empty() -> Either<Incoming, Full<Bytes>> {
    Either::Right(Full::default())
}

fn is_redirect<B>(answer: &Response<B>) -> bool {
    answer.status().is_redirection() && answer.headers().contains_key(LOCATION)
}

fn handed_on(exchange: &Exchange<'_>, mut answer: Response<Reading>) -> Response<Body> {
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let theirs = hyper::upgrade::on(&mut answer);
        let ours = exchange.head.extensions.get::<OnUpgrade>().cloned();
        relay::join(exchange.shared, ours, theirs);
        return answer.map(|_| Body::Empty);
    }
    let headers = relay::without_own(answer.headers());
    let mut response = answer.map(|reading| Body::Pieces(Box::pin(reading)));
    *response.headers_mut() = headers;
    response
}

fn unavailable(why: &str) -> Response<Body> {
    respond::text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
}
