//! Handlers of non-resource paths: discovery, OpenAPI, health, version, metrics, and custom routes of the binary.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use http::header::CACHE_CONTROL;
use http::{HeaderValue, Method, Response, StatusCode};
use serde::Serialize;
use setpoint_api::{Status, User};
use setpoint_auth::Issuer;
use setpoint_auth::token::discovery as openid;
use setpoint_codec::media;

use crate::body::Body;
use crate::chain::Exchange;
use crate::filters::priority_and_fairness::debug_dump;
use crate::metrics::{MetricsSource, TextEncoder};
use crate::negotiate::{self, Negotiated};
use crate::request::options::StatusError;
use crate::version::Version;
use crate::{discovery, health, openapi, respond};

static METRICS_TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
static PLAIN_TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
static BINARY: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Fixed paths that `/` lists.
const STATIC_PATHS: [&str; 6] = [
    "/metrics",
    "/metrics/slis",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/version",
];

/// A non-resource path added by the binary: a GET that returns bytes.
pub struct CustomRoute {
    pub path: &'static str,
    /// Handles a request of a user that may get the path.
    pub handler: RouteHandler,
}

/// Handler of a [`CustomRoute`].
pub type RouteHandler = Box<dyn Fn(&User) -> RouteFuture + Send + Sync>;

/// Future of a [`CustomRoute`]'s body, or of its error.
pub type RouteFuture = Pin<Box<dyn Future<Output = Result<Body, Status>> + Send>>;

impl fmt::Debug for CustomRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomRoute")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Handles a non-resource request.
pub(crate) async fn handle(
    exchange: &Exchange<'_>,
    path: &str,
    user: &User,
) -> Result<Response<Body>, StatusError> {
    if let Some(discovery_path) = discovery::parse(path) {
        return discovery::handle(exchange, &discovery_path);
    }
    if let Some(route) = exchange
        .shared
        .custom_routes
        .iter()
        .find(|route| route.path == path)
    {
        return custom_route(exchange, route, user).await;
    }
    if let Some(filter) = exchange.shared.flow_control.priority_and_fairness()
        && let Some(dump) = debug_dump::dump(filter, path, exchange.query)
    {
        return Ok(respond::response(
            StatusCode::OK,
            &PLAIN_TEXT,
            Body::Whole(dump.into()),
        ));
    }
    if let Some(rest) = path.strip_prefix("/openapi/") {
        return Ok(openapi::handle(exchange, rest));
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

fn version(exchange: &Exchange<'_>) -> Result<Response<Body>, StatusError> {
    if exchange.head.method != Method::GET {
        return Err(Box::new(Status::method_not_allowed()));
    }
    negotiate::check_version_request(&exchange.head.headers)?;
    Ok(indented(&Version::server()))
}

/// OpenID discovery: what third parties need to verify ServiceAccount tokens.
fn openid(issuer: &Issuer, path: &str, address: &str) -> Option<Response<Body>> {
    let (json, content_type) = match path {
        openid::CONFIGURATION_PATH => (openid::configuration(issuer, address), media::JSON),
        openid::KEYS_PATH => (openid::keys(issuer), openid::KEYS_TYPE),
        _ => return None,
    };
    let content_type = HeaderValue::from_static(content_type);
    let mut response = respond::response(StatusCode::OK, &content_type, Body::Whole(json.into()));
    let max_age = format!("public, max-age={}", openid::CACHE_SECONDS);
    let max_age = HeaderValue::try_from(max_age).expect("a number is valid in a header");
    response.headers_mut().insert(CACHE_CONTROL, max_age);
    Some(response)
}

fn plain(exchange: &Exchange<'_>, path: &str) -> Response<Body> {
    if let Some((endpoint, only)) = health::parse(path) {
        return health::handle(&exchange.shared.checks, endpoint, only, exchange.query);
    }
    match path.strip_suffix('/').unwrap_or(path) {
        "" | "/index.html" => indented(&PathList {
            paths: root_paths(exchange),
        }),
        "/metrics" => metrics(exchange),
        "/metrics/slis" => slis(exchange),
        _ => respond::page_not_found(),
    }
}

async fn custom_route(
    exchange: &Exchange<'_>,
    route: &CustomRoute,
    user: &User,
) -> Result<Response<Body>, StatusError> {
    if exchange.head.method != Method::GET {
        return Err(Box::new(Status::method_not_allowed()));
    }
    let body = (route.handler)(user).await?;
    Ok(respond::response(StatusCode::OK, &BINARY, body))
}

#[derive(Serialize)]
struct PathList {
    paths: Vec<String>,
}

fn root_paths(exchange: &Exchange<'_>) -> Vec<String> {
    let mut paths = discovery::paths(&exchange.served_apis());
    paths.push("/apis/".to_owned());
    paths.extend(STATIC_PATHS.map(str::to_owned));
    paths.extend(health::paths(&exchange.shared.checks));
    if exchange.shared.issuer.is_some() {
        paths.extend([openid::CONFIGURATION_PATH, openid::KEYS_PATH].map(str::to_owned));
    }
    paths.extend(
        exchange
            .shared
            .custom_routes
            .iter()
            .map(|route| route.path.to_owned()),
    );
    paths.sort();
    paths
}

fn indented(value: &impl Serialize) -> Response<Body> {
    let json = serde_json::to_vec(value).expect("versions and paths are plain strings");
    respond::encode(
        Negotiated {
            pretty: true,
            ..Negotiated::JSON
        },
        StatusCode::OK,
        json,
    )
}

fn metrics(exchange: &Exchange<'_>) -> Response<Body> {
    let mut text = TextEncoder::default();
    exchange.shared.metrics.write(&mut text);
    exchange.shared.flow_control.write(&mut text);
    exchange.shared.memory.write(&mut text);
    exchange.shared.bodies.write(&mut text);
    for source in &exchange.shared.metrics_sources {
        source.write(&mut text);
    }
    metrics_page(text)
}

/// Service level indicators: the results of health checks.
fn slis(exchange: &Exchange<'_>) -> Response<Body> {
    let mut text = TextEncoder::default();
    health::write_slis(&exchange.shared.checks, &mut text);
    metrics_page(text)
}

fn metrics_page(text: TextEncoder) -> Response<Body> {
    respond::response(
        StatusCode::OK,
        &METRICS_TEXT,
        Body::Whole(text.into_string().into()),
    )
}
