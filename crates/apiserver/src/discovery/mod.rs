//! Discovery: which groups, versions and resources there are. All of it follows from the table of kinds and from what
//! other servers say of theirs.

use http::header::{ACCEPT, CACHE_CONTROL, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use serde::Serialize;
use setpoint_api::Status;
use setpoint_codec::media;
use sha2::{Digest, Sha512};

use crate::body::Body;
use crate::chain::Exchange;
use crate::made::{Made, Served};
use crate::negotiate::{self, header};
use crate::request::options::Refused;
use crate::respond;

pub(crate) mod aggregated;
pub(crate) mod groups;
pub(crate) mod legacy;

static AGGREGATED: HeaderValue =
    HeaderValue::from_static("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");

/// The aggregated documents, made when first asked for.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    core: Made<Document>,
    others: Made<Document>,
}

/// A document that changes rarely, with the tag it is known by.
#[derive(Debug)]
pub(crate) struct Document {
    pub json: bytes::Bytes,
    /// The SHA-512 of the bytes, in upper-case hexadecimal.
    pub hash: String,
}

/// What a discovery path asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Documents<'a> {
    /// `/api`
    Core,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(&'a str),
    /// `/api/VERSION` and `/apis/GROUP/VERSION`
    Resources { group: &'a str, version: &'a str },
}

impl Documents<'_> {
    /// Whether the document is found as a resource is. The lists of groups are not: they are read by any method.
    fn is_routed(&self) -> bool {
        matches!(self, Documents::Core | Documents::Resources { .. })
    }
}

/// Understands a discovery path.
pub(crate) fn parse(path: &str) -> Option<Documents<'_>> {
    let parts: Vec<&str> = path.strip_prefix('/')?.trim_end_matches('/').split('/').collect();
    match parts.as_slice() {
        ["api"] => Some(Documents::Core),
        ["api", version] => Some(Documents::Resources { group: "", version }),
        ["apis"] => Some(Documents::Groups),
        ["apis", group] => Some(Documents::Group(group)),
        ["apis", group, version] => Some(Documents::Resources { group, version }),
        _ => None,
    }
}

/// Every discovery path there is.
pub(crate) fn paths(served: &Served) -> Vec<String> {
    let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
    for group in groups::with_others(served) {
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

/// Answers a discovery request.
pub(crate) fn answer(exchange: &Exchange<'_>, documents: &Documents<'_>) -> Result<Response<Body>, Refused> {
    let (shared, headers) = (exchange.shared, &exchange.head.headers);
    let served = exchange.served();
    if wants_aggregated(headers) {
        let discovery = &shared.discovery;
        match documents {
            Documents::Core => return Ok(tagged(headers, &discovery.core.of(&served, aggregated::core))),
            Documents::Groups => {
                return Ok(tagged(headers, &discovery.others.of(&served, aggregated::others)));
            }
            Documents::Group(_) | Documents::Resources { .. } => {}
        }
    }
    let Some(json) = legacy::document(&served, documents, shared.address())? else {
        return Ok(respond::page_not_found());
    };
    let wanted = match documents.is_routed() {
        true if exchange.head.method != Method::GET => {
            return Err(Box::new(Status::method_not_allowed()));
        }
        true => negotiate::routed_document(headers, exchange.query)?,
        false => negotiate::document(headers, exchange.query)?,
    };
    Ok(respond::document(wanted, StatusCode::OK, json))
}

/// Whether the first clause that can be served asks for everything at once.
fn wants_aggregated(headers: &HeaderMap) -> bool {
    for clause in media::clauses(header(headers, &ACCEPT)) {
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

fn tagged(headers: &HeaderMap, document: &Document) -> Response<Body> {
    let tag = format!("\"{}\"", document.hash);
    let known = header(headers, &IF_NONE_MATCH) == tag;
    let mut response = match known {
        true => {
            let mut response = Response::new(Body::Empty);
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        }
        false => respond::answer(StatusCode::OK, &AGGREGATED, Body::Whole(document.json.clone())),
    };
    let headers = response.headers_mut();
    headers.insert(
        ETAG,
        HeaderValue::try_from(tag).expect("a tag is hexadecimal digits in quotes"),
    );
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

// === impl Document ===

impl Document {
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
mod tests;
