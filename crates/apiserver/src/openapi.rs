//! OpenAPI documents of the served resources, v2 and v3.
//!
//! The schemas come from the shapes of the kinds, the paths from the kinds' names and verbs. OpenAPI documents are
//! built on first request and memoized: starting the server costs nothing.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderValue, Response, StatusCode};
use jiff::{Timestamp, ToSpan};
use serde_json::{Map, Value, json};
use setpoint_codec::media;

use crate::aggregate::{RemoteGroupVersion, RemoteGroups};
use crate::body::Body;
use crate::chain::Exchange;
use crate::discovery::TaggedJson;
use crate::memo::{Memoized, ServedApis};
use crate::negotiate::header;
use crate::respond;

mod gnostic;
pub(crate) mod merge;
mod operation_id;
mod operations;
mod parameters;
mod v2;
mod v3;
mod verb_spec;

/// Media types of the protobuf encoding: the current one, and the one of older clients.
const V2_PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
];
const V3_PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
];

/// The OpenAPI documents, built on first request.
#[derive(Debug, Default)]
pub(crate) struct OpenApi {
    /// OpenAPI v3, by path: `api/v1`, `apis/apps/v1`.
    v3: Memoized<Vec<(String, OpenApiDocument)>>,
    /// v2: one OpenAPI document, aggregated API servers included.
    v2: Memoized<OpenApiDocument>,
    /// Always empty: this server's v3 OpenAPI documents contain only its own kinds.
    no_remote_groups: Arc<RemoteGroups>,
}

/// An OpenAPI document in JSON, and in protobuf once a client has requested that.
#[derive(Debug)]
struct OpenApiDocument {
    json: TaggedJson,
    messages: &'static gnostic::Message,
    protobuf: OnceLock<Bytes>,
}

/// Handles a request for `/openapi/REST`.
pub(crate) fn handle(exchange: &Exchange<'_>, rest: &str) -> Response<Body> {
    let openapi = &exchange.shared.openapi;
    let local = ServedApis {
        kinds: exchange.kinds.clone(),
        remote_groups: openapi.no_remote_groups.clone(),
    };
    match rest {
        "v2" => {
            let document = openapi
                .v2
                .get_or_build(&exchange.served_apis(), OpenApiDocument::v2);
            match negotiated(exchange, &document, V2_PROTOBUF) {
                Some(response) => response,
                None => empty(StatusCode::NOT_ACCEPTABLE),
            }
        }
        "v3" => index(
            &openapi.v3.get_or_build(&local, OpenApiDocument::all_v3),
            &exchange.shared.aggregator.remote_groups(),
        ),
        rest => match rest.strip_prefix("v3/") {
            Some(path) => match openapi
                .v3
                .get_or_build(&local, OpenApiDocument::all_v3)
                .iter()
                .find(|(own, _)| own == path)
            {
                Some((path, document)) => versioned(exchange, path, document),
                None => empty(StatusCode::NOT_FOUND),
            },
            None => respond::page_not_found(),
        },
    }
}

// === impl OpenApiDocument ===

impl OpenApiDocument {
    fn v2(apis: &ServedApis) -> Self {
        let mut document = v2::from_v3(&v3::all(&apis.kinds));
        for part in apis
            .remote_groups
            .versions
            .iter()
            .filter_map(RemoteGroupVersion::openapi_v2)
        {
            merge::add(&mut document, &part);
        }
        Self {
            json: TaggedJson::new(&document),
            messages: &gnostic::V2,
            protobuf: OnceLock::new(),
        }
    }

    fn all_v3(apis: &ServedApis) -> Vec<(String, Self)> {
        let documents = v3::all(&apis.kinds).into_iter();
        documents.map(|(path, value)| (path, Self::v3(&value))).collect()
    }

    fn v3(value: &Value) -> Self {
        Self {
            json: TaggedJson::new(value),
            messages: &gnostic::V3,
            protobuf: OnceLock::new(),
        }
    }

    fn protobuf(&self) -> Bytes {
        let bytes = self.protobuf.get_or_init(|| {
            let value = serde_json::from_slice(&self.json.json);
            let value: Value = value.expect("a document is JSON that this server wrote");
            gnostic::encode(self.messages, &value).into()
        });
        bytes.clone()
    }
}

/// The index of the v3 OpenAPI documents, each under a URL that contains its hash. Aggregated API servers publish their
/// own URLs.
fn index(documents: &[(String, OpenApiDocument)], remote_groups: &RemoteGroups) -> Response<Body> {
    let entry = |(path, document): &(String, OpenApiDocument)| {
        (
            path.clone(),
            json!({"serverRelativeURL": hashed_url(path, document)}),
        )
    };
    let remote_entry = |(path, url): &(String, String)| (path.clone(), json!({"serverRelativeURL": url}));
    let mut paths: Vec<(String, Value)> = documents.iter().map(entry).collect();
    paths.extend(
        remote_groups
            .versions
            .iter()
            .flat_map(RemoteGroupVersion::openapi_v3)
            .map(remote_entry),
    );
    paths.sort_by(|left, right| left.0.cmp(&right.0));
    let paths: Map<String, Value> = paths.into_iter().collect();
    let json = serde_json::to_vec(&json!({"paths": paths})).expect("an index is plain strings");
    let mut response = respond::text(StatusCode::OK, json);
    response
        .headers_mut()
        .remove(http::header::X_CONTENT_TYPE_OPTIONS);
    response
}

fn hashed_url(path: &str, document: &OpenApiDocument) -> String {
    format!("/openapi/v3/{path}?hash={}", document.json.hash)
}

/// A v3 OpenAPI document. Under its current hash it is immutable; under a stale hash it redirects.
fn versioned(exchange: &Exchange<'_>, path: &str, document: &OpenApiDocument) -> Response<Body> {
    let Some(mut response) = negotiated(exchange, document, V3_PROTOBUF) else {
        return empty(StatusCode::NOT_ACCEPTABLE);
    };
    let headers = response.headers_mut();
    match exchange.query.text("hash") {
        None => {}
        Some(hash) if hash == document.json.hash => {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
            headers.insert(EXPIRES, in_a_year(exchange.shared.clock.now()));
        }
        Some(_) => {
            let location = HeaderValue::try_from(hashed_url(path, document));
            headers.insert(
                LOCATION,
                location.expect("a path and a hash are valid in a header"),
            );
            *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
            *response.body_mut() = Body::Empty;
        }
    }
    response
}

fn in_a_year(now: Timestamp) -> HeaderValue {
    let later = now.to_zoned(jiff::tz::TimeZone::UTC).saturating_add(1.year());
    let text = later.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string();
    HeaderValue::try_from(text).expect("a date is valid in a header")
}

/// The OpenAPI document in the encoding the client accepts, or 304 if it has it already; `None` if no encoding is
/// acceptable.
fn negotiated(
    exchange: &Exchange<'_>,
    document: &OpenApiDocument,
    protobuf: [&str; 2],
) -> Option<Response<Body>> {
    let headers = &exchange.head.headers;
    let chosen = media::negotiate(header(headers, &ACCEPT), &[media::JSON, protobuf[0], protobuf[1]])?;
    let (content_type, bytes) = match chosen {
        media::JSON => (media::JSON, document.json.json.clone()),
        _ => (protobuf[0], document.protobuf()),
    };
    let etag = format!("\"{}\"", document.json.hash);
    let mut response = match header(headers, &IF_NONE_MATCH) == etag {
        true => empty(StatusCode::NOT_MODIFIED),
        false => respond::response(StatusCode::OK, &content_type_of(content_type), Body::Whole(bytes)),
    };
    let headers = response.headers_mut();
    headers.insert(
        ETAG,
        HeaderValue::try_from(etag).expect("an ETag is hexadecimal digits in quotes"),
    );
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    Some(response)
}

fn content_type_of(name: &str) -> HeaderValue {
    HeaderValue::from_str(name).expect("media types are valid in a header")
}

fn empty(code: StatusCode) -> Response<Body> {
    let mut response = respond::response(code, &HeaderValue::from_static(""), Body::Empty);
    response.headers_mut().remove(CONTENT_TYPE);
    response
}

#[cfg(test)]
mod tests;
