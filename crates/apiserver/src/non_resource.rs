//! Handlers of non-resource paths: discovery, OpenAPI, health, version, metrics, and custom routes of the binary.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};

use bytes::Bytes;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, Method, Response, StatusCode};
use hyper::body::Incoming;
use serde::Serialize;
use setpoint_api::{HttpVerb, Status, User};
use setpoint_auth::token::discovery as openid;
use setpoint_auth::{Authorize, Issuer};
use setpoint_codec::media;

use crate::body::Body;
use crate::chain::Exchange;
use crate::filters::limit;
use crate::filters::priority_and_fairness::debug_dump;
use crate::metrics::{MetricsSource, TextEncoder};
use crate::negotiate::{self, Negotiated};
use crate::request::RequestInfo;
use crate::request::deadline::{self, Deadline};
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

/// A non-resource path added by the binary.
pub struct CustomRoute {
    pub path: &'static str,
    /// Whether the paths below it are handled, too.
    pub subpaths: bool,
    /// The HTTP methods that it accepts.
    pub verbs: &'static [HttpVerb],
    pub handler: RouteHandler,
}

/// A request for a [`CustomRoute`], of a user that is authorized for the verb on the path.
#[derive(Clone, Copy)]
pub struct RouteRequest<'a> {
    pub user: &'a User,
    /// The authorizers of the server, for checks beyond the permission on the path.
    pub authorize: &'a dyn Authorize,
    pub verb: HttpVerb,
    pub path: &'a str,
    /// Empty unless the request is a POST, PUT or PATCH.
    pub body: &'a [u8],
}

/// Response of a [`CustomRoute`].
#[derive(Debug)]
pub struct RouteResponse {
    code: StatusCode,
    content_type: HeaderValue,
    body: Body,
}

/// Handler of a [`CustomRoute`].
pub type RouteHandler = Box<dyn Fn(RouteRequest<'_>) -> RouteFuture + Send + Sync>;

/// Future of a [`CustomRoute`]'s response, or of its error.
pub type RouteFuture = Pin<Box<dyn Future<Output = Result<RouteResponse, Status>> + Send>>;

// === impl CustomRoute ===

impl CustomRoute {
    fn matches(&self, path: &str) -> bool {
        let below = path.strip_prefix(self.path);
        below.is_some_and(|below| below.is_empty() || (self.subpaths && below.starts_with('/')))
    }
}

// === impl RouteRequest ===

impl fmt::Debug for RouteRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteRequest")
            .field("verb", &self.verb)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

// === impl RouteResponse ===

impl RouteResponse {
    /// Bytes of no particular format.
    pub fn bytes(body: Body) -> Self {
        Self {
            code: StatusCode::OK,
            content_type: BINARY.clone(),
            body,
        }
    }

    /// A JSON value that was read.
    pub fn json(json: Vec<u8>) -> Self {
        Self {
            code: StatusCode::OK,
            content_type: HeaderValue::from_static(media::JSON),
            body: Body::Whole(json.into()),
        }
    }

    /// A JSON value that was created.
    pub fn created(json: Vec<u8>) -> Self {
        Self {
            code: StatusCode::CREATED,
            ..Self::json(json)
        }
    }
}

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
    body: &mut Option<Incoming>,
) -> Result<Response<Body>, StatusError> {
    if let Some(discovery_path) = discovery::parse(path) {
        return discovery::handle(exchange, &discovery_path);
    }
    let mut custom_routes = exchange.shared.custom_routes.iter();
    if let Some(route) = custom_routes.find(|route| route.matches(path)) {
        return custom_route(exchange, route, user, body).await;
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
        && let Some(published) = openid(issuer, path, &external_address(exchange))
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

/// The address of this server, with the path under which the client sees it.
fn external_address(exchange: &Exchange<'_>) -> String {
    format!("{}{}", exchange.shared.address, exchange.base_path)
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
    body: &mut Option<Incoming>,
) -> Result<Response<Body>, StatusError> {
    let RequestInfo::NonResource {
        verb: Some(verb),
        path,
    } = exchange.request_info
    else {
        return Err(Box::new(Status::method_not_allowed()));
    };
    if !route.verbs.contains(verb) {
        return Err(Box::new(Status::method_not_allowed()));
    }
    let has_body = matches!(verb, HttpVerb::Post | HttpVerb::Put | HttpVerb::Patch);
    let timeout = deadline::read(exchange.query)?;
    let deadline = Deadline::after(exchange.begun, timeout, &*exchange.shared.clock);
    let body = match body.as_mut().filter(|_| has_body) {
        Some(body) => deadline.limit(pin!(limit::read(body))).await??,
        None => Bytes::new(),
    };
    let request = RouteRequest {
        user,
        authorize: &*exchange.shared.authorize,
        verb: *verb,
        path,
        body: &body,
    };
    let response = (route.handler)(request).await?;
    Ok(respond::response(
        response.code,
        &response.content_type,
        response.body,
    ))
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
