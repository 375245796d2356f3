//! OpenAPI documents of the served resources, v2 and v3.
//!
//! The schemas come from the shapes of the kinds, the paths from the kinds' names and verbs. OpenAPI documents are
//! built on first request and memoized, compressed: starting the server costs nothing, and each takes about a tenth of
//! its length in memory.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, EXPIRES, IF_NONE_MATCH, LOCATION, VARY,
};
use http::{HeaderValue, Response, StatusCode};
use jiff::{Timestamp, ToSpan};
use serde_json::{Map, Value, json};
use setpoint_api::off_worker;
use setpoint_codec::media;

use crate::aggregate::{RemoteGroupVersion, RemoteGroups};
use crate::body::Body;
use crate::chain::Exchange;
use crate::compression::{self, accepts_gzip};
use crate::discovery::TaggedJson;
use crate::memo::{Memoized, ServedApis};
use crate::negotiate::header;
use crate::respond;
use descriptions::Descriptions;
use v3::V3Source;

mod descriptions;
mod gnostic;
pub(crate) mod merge;
mod operation;
mod operation_id;
mod operations;
mod parameters;
mod sentences;
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
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenApi {
    v3: Memoized<Vec<V3Document>>,
    /// v2: one OpenAPI document, aggregated API servers included.
    v2: Memoized<OpenApiDocument>,
    /// Always empty: this server's v3 OpenAPI documents contain only its own kinds.
    no_remote_groups: Arc<RemoteGroups>,
}

/// An OpenAPI document of v3, and what it was built from.
#[derive(Debug, Clone)]
struct V3Document {
    source: V3Source,
    document: Arc<OpenApiDocument>,
}

/// An OpenAPI document in JSON, and in protobuf once a client has requested that; both compressed with gzip.
#[derive(Debug)]
struct OpenApiDocument {
    json: Bytes,
    /// The hash of the uncompressed JSON, for the ETag.
    hash: String,
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
            &openapi.v3.get_or_update(&local, V3Document::all),
            &exchange.shared.aggregator.remote_groups(),
            exchange.base_path,
        ),
        rest => match rest.strip_prefix("v3/") {
            Some(path) => match openapi
                .v3
                .get_or_update(&local, V3Document::all)
                .iter()
                .find(|own| own.source.path == path)
            {
                Some(found) => versioned(exchange, found),
                None => empty(StatusCode::NOT_FOUND),
            },
            None => respond::page_not_found(),
        },
    }
}

// === impl V3Document ===

impl V3Document {
    /// All v3 OpenAPI documents. Those whose kinds are the same as before are taken over.
    fn all(apis: &ServedApis, before: Option<&Vec<V3Document>>) -> Vec<Self> {
        let descriptions = Descriptions::builtin();
        let document = |source: V3Source| {
            let mut before = before.into_iter().flatten();
            if let Some(same) = before.find(|before| before.source.is_same(&source)) {
                return same.clone();
            }
            let value = source.build(&descriptions);
            let document = Arc::new(OpenApiDocument::new(&value, &gnostic::V3));
            Self { source, document }
        };
        v3::sources(&apis.kinds).into_iter().map(document).collect()
    }

    fn hashed_url(&self) -> String {
        format!("/openapi/v3/{}?hash={}", self.source.path, self.document.hash)
    }
}

// === impl OpenApiDocument ===

impl OpenApiDocument {
    fn v2(apis: &ServedApis) -> Self {
        let mut document = v2::build(&apis.kinds);
        for part in apis
            .remote_groups
            .versions
            .iter()
            .filter_map(RemoteGroupVersion::openapi_v2)
        {
            merge::add(&mut document, &part);
        }
        Self::new(&document, &gnostic::V2)
    }

    fn new(value: &Value, messages: &'static gnostic::Message) -> Self {
        let TaggedJson { json, hash } = TaggedJson::new(value);
        Self {
            json: compression::gzip(&json),
            hash,
            messages,
            protobuf: OnceLock::new(),
        }
    }

    /// The OpenAPI document in protobuf, compressed.
    fn protobuf(&self) -> Bytes {
        if let Some(bytes) = self.protobuf.get() {
            return bytes.clone();
        }
        off_worker(|| self.protobuf.get_or_init(|| self.to_protobuf()).clone())
    }

    fn to_protobuf(&self) -> Bytes {
        let value = setpoint_api::json::from_slice(&compression::gunzip(&self.json));
        let value: Value = value.expect("a document is JSON that this server wrote");
        compression::gzip(&gnostic::encode(self.messages, &value))
    }
}

/// The index of the v3 OpenAPI documents, each under a URL that contains its hash. Aggregated API servers publish their
/// own URLs.
fn index(documents: &[V3Document], remote_groups: &RemoteGroups, base_path: &str) -> Response<Body> {
    let url = |path: &str| json!({"serverRelativeURL": format!("{base_path}{path}")});
    let entry = |own: &V3Document| (own.source.path.clone(), url(&own.hashed_url()));
    let remote_entry = |(path, remote_url): &(String, String)| (path.clone(), url(remote_url));
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

/// A v3 OpenAPI document. Under its current hash it is immutable; under a stale hash it redirects.
fn versioned(exchange: &Exchange<'_>, found: &V3Document) -> Response<Body> {
    let Some(mut response) = negotiated(exchange, &found.document, V3_PROTOBUF) else {
        return empty(StatusCode::NOT_ACCEPTABLE);
    };
    let headers = response.headers_mut();
    match exchange.query.text("hash") {
        None => {}
        Some(hash) if hash == found.document.hash => {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
            headers.insert(EXPIRES, in_a_year(exchange.shared.clock.now()));
        }
        Some(_) => {
            let location = HeaderValue::try_from(format!("{}{}", exchange.base_path, found.hashed_url()));
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
    let etag = format!("\"{}\"", document.hash);
    let mut response = match (header(headers, &IF_NONE_MATCH) == etag, chosen) {
        (true, _) => empty(StatusCode::NOT_MODIFIED),
        (false, media::JSON) => compressed(exchange, media::JSON, document.json.clone()),
        (false, _) => compressed(exchange, protobuf[0], document.protobuf()),
    };
    let headers = response.headers_mut();
    headers.insert(
        ETAG,
        HeaderValue::try_from(etag).expect("an ETag is hexadecimal digits in quotes"),
    );
    headers.append(VARY, HeaderValue::from_static("Accept"));
    Some(response)
}

/// A compressed OpenAPI document, decompressed if the client does not accept gzip.
fn compressed(exchange: &Exchange<'_>, content_type: &str, gzip: Bytes) -> Response<Body> {
    let is_accepted = accepts_gzip(&exchange.head.headers);
    let bytes = match is_accepted {
        true => gzip,
        false => compression::gunzip(&gzip).into(),
    };
    let mut response = respond::response(StatusCode::OK, &content_type_of(content_type), Body::Whole(bytes));
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    if is_accepted {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
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
