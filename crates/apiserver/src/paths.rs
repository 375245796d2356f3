//! Paths that are no resource: discovery, OpenAPI, health, version, metrics, and this program's own.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use http::header::CACHE_CONTROL;
use http::{HeaderValue, Method, Response, StatusCode};
use serde::Serialize;
use setpoint_api::Status;
use setpoint_auth::Issuer;
use setpoint_auth::token::discovery as openid;
use setpoint_codec::media;

use crate::body::Body;
use crate::chain::Exchange;
use crate::metrics::{Source, Text};
use crate::negotiate::{self, Wanted};
use crate::request::options::Refused;
use crate::version::Version;
use crate::{discovery, health, openapi, respond};

static FIGURES: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
static BINARY: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Paths that the root lists besides discovery's.
const LISTED: [&str; 5] = [
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/version",
];

/// A path of this program's own, for administrators: a GET that answers with bytes.
pub struct Extra {
    pub path: &'static str,
    pub answer: Box<dyn Fn() -> Answering + Send + Sync>,
}

/// The bytes to come of an [`Extra`], or why there are none.
pub type Answering = Pin<Box<dyn Future<Output = Result<Body, String>> + Send>>;

impl fmt::Debug for Extra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extra")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Answers a request for a path.
pub(crate) async fn answer(exchange: &Exchange<'_>, path: &str) -> Result<Response<Body>, Refused> {
    if let Some(documents) = discovery::parse(path) {
        return discovery::answer(exchange, &documents);
    }
    if let Some(extra) = exchange.shared.extras.iter().find(|extra| extra.path == path) {
        return extra_answer(extra).await;
    }
    if let Some(rest) = path.strip_prefix("/openapi/") {
        return Ok(openapi::answer(exchange, rest));
    }
    if let Some(issuer) = &exchange.shared.issuer
        && let Some(published) = openid(issuer, path, &exchange.shared.address().to_string())
    {
        return Ok(published);
    }
    if path.strip_suffix('/').unwrap_or(path) == "/version" {
        return version(exchange);
    }
    Ok(plain(exchange, path))
}

fn version(exchange: &Exchange<'_>) -> Result<Response<Body>, Refused> {
    if exchange.head.method != Method::GET {
        return Err(Box::new(Status::method_not_allowed()));
    }
    negotiate::json_document(&exchange.head.headers)?;
    Ok(indented(&Version::server()))
}

/// What others need to verify the tokens of service accounts.
fn openid(issuer: &Issuer, path: &str, address: &str) -> Option<Response<Body>> {
    let (json, content_type) = match path {
        openid::CONFIGURATION_PATH => (openid::configuration(issuer, address), media::JSON),
        openid::KEYS_PATH => (openid::keys(issuer), openid::KEYS_TYPE),
        _ => return None,
    };
    let content_type = HeaderValue::from_static(content_type);
    let mut response = respond::answer(StatusCode::OK, &content_type, Body::Whole(json.into()));
    let kept = format!("public, max-age={}", openid::CACHE_SECONDS);
    let kept = HeaderValue::try_from(kept).expect("a number may stand in a header");
    response.headers_mut().insert(CACHE_CONTROL, kept);
    Some(response)
}

fn plain(exchange: &Exchange<'_>, path: &str) -> Response<Body> {
    if let Some((question, only)) = health::parse(path) {
        return health::answer(&exchange.shared.checks, question, only, exchange.query);
    }
    match path.strip_suffix('/').unwrap_or(path) {
        "" | "/index.html" => indented(&Listed {
            paths: listed(exchange),
        }),
        "/metrics" => figures(exchange),
        _ => respond::page_not_found(),
    }
}

async fn extra_answer(extra: &Extra) -> Result<Response<Body>, Refused> {
    match (extra.answer)().await {
        Ok(body) => Ok(respond::answer(StatusCode::OK, &BINARY, body)),
        Err(reason) => Err(Box::new(Status::internal(reason))),
    }
}

#[derive(Serialize)]
struct Listed {
    paths: Vec<String>,
}

fn listed(exchange: &Exchange<'_>) -> Vec<String> {
    let mut paths = discovery::paths(&exchange.served());
    paths.push("/apis/".to_owned());
    paths.extend(LISTED.map(str::to_owned));
    paths.extend(health::paths(&exchange.shared.checks));
    if exchange.shared.issuer.is_some() {
        paths.extend([openid::CONFIGURATION_PATH, openid::KEYS_PATH].map(str::to_owned));
    }
    paths.extend(exchange.shared.extras.iter().map(|extra| extra.path.to_owned()));
    paths.sort();
    paths
}

fn indented(document: &impl Serialize) -> Response<Body> {
    let json = serde_json::to_vec(document).expect("versions and paths are plain strings");
    respond::document(
        Wanted {
            pretty: true,
            ..Wanted::JSON
        },
        StatusCode::OK,
        json,
    )
}

fn figures(exchange: &Exchange<'_>) -> Response<Body> {
    let mut text = Text::default();
    exchange.shared.metrics.write(&mut text);
    exchange.shared.fairness.write(&mut text);
    for source in &exchange.shared.sources {
        source.write(&mut text);
    }
    respond::answer(StatusCode::OK, &FIGURES, Body::Whole(text.into_string().into()))
}
