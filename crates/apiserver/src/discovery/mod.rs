//! Discovery: the served groups, versions and resources, derived from the kinds and from the discovery of aggregated
//! API servers.

use http::header::{ACCEPT, CACHE_CONTROL, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use serde::Serialize;
use setpoint_api::{ApiVerb, Status};
use setpoint_codec::media;
use setpoint_strategy::KindInfo;
use sha2::{Digest, Sha512};

use crate::body::Body;
use crate::chain::Exchange;
use crate::memo::{Memoized, ServedApis};
use crate::negotiate::{self, header};
use crate::request::options::StatusError;
use crate::respond;

pub(crate) mod aggregated;
pub(crate) mod groups;
pub(crate) mod legacy;

static AGGREGATED: HeaderValue =
    HeaderValue::from_static("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");

/// The aggregated discovery documents, built on first request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Discovery {
    core: Memoized<TaggedJson>,
    groups: Memoized<TaggedJson>,
}

/// A JSON document with the hash for its ETag.
#[derive(Debug)]
pub(crate) struct TaggedJson {
    pub json: bytes::Bytes,
    /// The SHA-512 of the bytes, in upper-case hexadecimal.
    pub hash: String,
}

/// A parsed discovery path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DiscoveryPath<'a> {
    /// `/api`
    Core,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(&'a str),
    /// `/api/VERSION` and `/apis/GROUP/VERSION`
    Resources { group: &'a str, version: &'a str },
}

impl DiscoveryPath<'_> {
    /// Whether upstream serves the path by the router of resources. The lists of groups are not: they accept any
    /// method.
    fn is_routed(&self) -> bool {
        matches!(self, DiscoveryPath::Core | DiscoveryPath::Resources { .. })
    }
}

/// Parses a discovery path.
pub(crate) fn parse(path: &str) -> Option<DiscoveryPath<'_>> {
    let segments: Vec<&str> = path.strip_prefix('/')?.trim_end_matches('/').split('/').collect();
    match segments.as_slice() {
        ["api"] => Some(DiscoveryPath::Core),
        ["api", version] => Some(DiscoveryPath::Resources { group: "", version }),
        ["apis"] => Some(DiscoveryPath::Groups),
        ["apis", group] => Some(DiscoveryPath::Group(group)),
        ["apis", group, version] => Some(DiscoveryPath::Resources { group, version }),
        _ => None,
    }
}

/// All discovery paths.
pub(crate) fn paths(apis: &ServedApis) -> Vec<String> {
    let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
    for group in groups::all_groups(apis) {
        let root = if group.name.is_empty() {
            "/api".to_owned()
        } else {
            format!("/apis/{}", group.name)
        };
        paths.extend(group.versions.iter().map(|version| format!("{root}/{version}")));
        if !group.name.is_empty() {
            paths.push(root);
        }
    }
    paths
}

/// The verbs of a resource as discovery lists them: in alphabetical order, or for custom resources in that of the
/// handler that serves them upstream.
fn discovery_verbs(info: &KindInfo) -> Vec<ApiVerb> {
    const CUSTOM: [ApiVerb; 8] = [
        ApiVerb::Delete,
        ApiVerb::DeleteCollection,
        ApiVerb::Get,
        ApiVerb::List,
        ApiVerb::Patch,
        ApiVerb::Create,
        ApiVerb::Update,
        ApiVerb::Watch,
    ];
    let order = if info.is_custom { CUSTOM } else { ApiVerb::ALL };
    order.into_iter().filter(|verb| info.allows(*verb)).collect()
}

/// Handles a discovery request.
pub(crate) fn handle(
    exchange: &Exchange<'_>,
    path: &DiscoveryPath<'_>,
) -> Result<Response<Body>, StatusError> {
    let (shared, headers) = (exchange.shared, &exchange.head.headers);
    let apis = exchange.served_apis();
    if accepts_aggregated(headers) {
        let discovery = &shared.discovery;
        match path {
            DiscoveryPath::Core => {
                return Ok(with_etag(
                    headers,
                    &discovery.core.get_or_build(&apis, aggregated::core_group),
                ));
            }
            DiscoveryPath::Groups => {
                return Ok(with_etag(
                    headers,
                    &discovery.groups.get_or_build(&apis, aggregated::named_groups),
                ));
            }
            DiscoveryPath::Group(_) | DiscoveryPath::Resources { .. } => {}
        }
    }
    let Some(json) = legacy::json(&apis, path, shared.address)? else {
        return Ok(respond::page_not_found());
    };
    let negotiated = match path.is_routed() {
        true if exchange.head.method != Method::GET => {
            return Err(Box::new(Status::method_not_allowed()));
        }
        true => negotiate::routed_discovery(headers, exchange.query)?,
        false => negotiate::discovery(headers, exchange.query)?,
    };
    Ok(respond::encode(negotiated, StatusCode::OK, json))
}

/// Whether the first clause that can be served requests aggregated discovery.
fn accepts_aggregated(headers: &HeaderMap) -> bool {
    for clause in media::parse_accept(header(headers, &ACCEPT)) {
        let is_json = matches!(clause.essence, media::JSON | "*/*");
        match (is_json, clause.parameter("as")) {
            (true, Some("APIGroupDiscoveryList"))
                if clause.parameter("v") == Some("v2")
                    && clause.parameter("g") == Some("apidiscovery.k8s.io") =>
            {
                return true;
            }
            (true, None) => return false,
            _ => {}
        }
    }
    false
}

fn with_etag(headers: &HeaderMap, document: &TaggedJson) -> Response<Body> {
    let etag = format!("\"{}\"", document.hash);
    let unchanged = header(headers, &IF_NONE_MATCH) == etag;
    let mut response = match unchanged {
        true => {
            let mut response = Response::new(Body::Empty);
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        }
        false => respond::response(StatusCode::OK, &AGGREGATED, Body::Whole(document.json.clone())),
    };
    let headers = response.headers_mut();
    headers.insert(
        ETAG,
        HeaderValue::try_from(etag).expect("an ETag is hexadecimal digits in quotes"),
    );
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

// === impl TaggedJson ===

impl TaggedJson {
    pub(crate) fn new(value: &impl Serialize) -> Self {
        let json = serde_json::to_vec(value).expect("discovery and schemas are plain data");
        let hash = Sha512::digest(&json)
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect();
        Self {
            json: json.into(),
            hash,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
