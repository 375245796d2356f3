//! OpenAPI: what the resources and their documents look like, for tools that ask before they write.
//!
//! The schemas come from the shapes of the kinds, the paths from the table of kinds. Documents are made when one is first
//! asked for and kept: starting the server costs nothing.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderValue, Response, StatusCode};
use jiff::{Timestamp, ToSpan};
use serde_json::{Map, Value, json};
use setpoint_codec::media;

use crate::aggregate::{Other, Others};
use crate::body::Body;
use crate::chain::Exchange;
use crate::discovery::Document;
use crate::made::{Made, Served};
use crate::negotiate::header;
use crate::respond;

mod gnostic;
pub(crate) mod merge;
mod operations;
mod parameters;
mod second;
mod third;
mod words;

/// The protobuf form of a document, by version: as it is named, and as older clients name it.
const SECOND: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
];
const THIRD: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
];

/// The documents, made when first asked for.
#[derive(Debug, Default)]
pub(crate) struct OpenApi {
    /// Version 3, by path: `api/v1`, `apis/apps/v1`.
    third: Made<Vec<(String, Published)>>,
    /// Version 2, everything in one document, that of others too.
    second: Made<Published>,
    /// The documents of version 3 are those of this server alone.
    nobody: Arc<Others>,
}

/// A document in both forms. The one that few ask for is made of the other.
#[derive(Debug)]
struct Published {
    document: Document,
    messages: &'static gnostic::Message,
    binary: OnceLock<Bytes>,
}

/// Answers a request for `/openapi/REST`.
pub(crate) fn answer(exchange: &Exchange<'_>, rest: &str) -> Response<Body> {
    let openapi = &exchange.shared.openapi;
    let own = Served {
        kinds: exchange.kinds.clone(),
        others: openapi.nobody.clone(),
    };
    match rest {
        "v2" => {
            let published = openapi.second.of(&exchange.served(), Published::second);
            match formatted(exchange, &published, SECOND) {
                Some(response) => response,
                None => empty(StatusCode::NOT_ACCEPTABLE),
            }
        }
        "v3" => index(
            &openapi.third.of(&own, Published::all_third),
            &exchange.shared.aggregate.others(),
        ),
        rest => match rest.strip_prefix("v3/") {
            Some(path) => match openapi
                .third
                .of(&own, Published::all_third)
                .iter()
                .find(|(own, _)| own == path)
            {
                Some((path, published)) => versioned(exchange, path, published),
                None => empty(StatusCode::NOT_FOUND),
            },
            None => respond::page_not_found(),
        },
    }
}

// === impl Published ===

impl Published {
    fn second(served: &Served) -> Self {
        let mut document = second::from_third(&third::all(&served.kinds));
        for part in served.others.all.iter().filter_map(Other::second) {
            merge::add(&mut document, &part);
        }
        Self {
            document: Document::new(&document),
            messages: &gnostic::SECOND,
            binary: OnceLock::new(),
        }
    }

    fn all_third(served: &Served) -> Vec<(String, Self)> {
        let documents = third::all(&served.kinds).into_iter();
        documents
            .map(|(path, value)| (path, Self::third(&value)))
            .collect()
    }

    fn third(value: &Value) -> Self {
        Self {
            document: Document::new(value),
            messages: &gnostic::THIRD,
            binary: OnceLock::new(),
        }
    }

    fn binary(&self) -> Bytes {
        let made = self.binary.get_or_init(|| {
            let value = serde_json::from_slice(&self.document.json);
            let value: Value = value.expect("a document is JSON that this server wrote");
            gnostic::encode(self.messages, &value).into()
        });
        made.clone()
    }
}

/// Where the documents of version 3 are, each under a name that changes with its content. Those of others are where
/// these say.
fn index(documents: &[(String, Published)], others: &Others) -> Response<Body> {
    let entry = |(path, published): &(String, Published)| {
        (path.clone(), json!({"serverRelativeURL": place(path, published)}))
    };
    let of_other = |(path, place): &(String, String)| (path.clone(), json!({"serverRelativeURL": place}));
    let mut paths: Vec<(String, Value)> = documents.iter().map(entry).collect();
    paths.extend(others.all.iter().flat_map(Other::documents).map(of_other));
    paths.sort_by(|left, right| left.0.cmp(&right.0));
    let paths: Map<String, Value> = paths.into_iter().collect();
    let json = serde_json::to_vec(&json!({"paths": paths})).expect("an index is plain strings");
    let mut response = respond::text(StatusCode::OK, json);
    response
        .headers_mut()
        .remove(http::header::X_CONTENT_TYPE_OPTIONS);
    response
}

fn place(path: &str, published: &Published) -> String {
    format!("/openapi/v3/{path}?hash={}", published.document.hash)
}

/// A document under a name of its own may be kept for ever; under a stale one it has moved.
fn versioned(exchange: &Exchange<'_>, path: &str, published: &Published) -> Response<Body> {
    let Some(mut response) = formatted(exchange, published, THIRD) else {
        return empty(StatusCode::NOT_ACCEPTABLE);
    };
    let headers = response.headers_mut();
    match exchange.query.text("hash") {
        None => {}
        Some(hash) if hash == published.document.hash => {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
            headers.insert(EXPIRES, in_a_year(exchange.shared.clock.now()));
        }
        Some(_) => {
            let location = HeaderValue::try_from(place(path, published));
            headers.insert(
                LOCATION,
                location.expect("a path and a hash may stand in a header"),
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
    HeaderValue::try_from(text).expect("a date may stand in a header")
}

/// The document in the form that is asked for, unless the caller has it already; `None` if there is no such form.
fn formatted(exchange: &Exchange<'_>, published: &Published, binary: [&str; 2]) -> Option<Response<Body>> {
    let headers = &exchange.head.headers;
    let chosen = media::negotiate(header(headers, &ACCEPT), &[media::JSON, binary[0], binary[1]])?;
    let (content_type, bytes) = match chosen {
        media::JSON => (media::JSON, published.document.json.clone()),
        _ => (binary[0], published.binary()),
    };
    let tag = format!("\"{}\"", published.document.hash);
    let mut response = match header(headers, &IF_NONE_MATCH) == tag {
        true => empty(StatusCode::NOT_MODIFIED),
        false => respond::answer(StatusCode::OK, &content_type_of(content_type), Body::Whole(bytes)),
    };
    let headers = response.headers_mut();
    headers.insert(
        ETAG,
        HeaderValue::try_from(tag).expect("a tag is hexadecimal digits in quotes"),
    );
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    Some(response)
}

fn content_type_of(name: &str) -> HeaderValue {
    HeaderValue::from_str(name).expect("the names of the forms may stand in a header")
}

fn empty(code: StatusCode) -> Response<Body> {
    let mut response = respond::answer(code, &HeaderValue::from_static(""), Body::Empty);
    response.headers_mut().remove(CONTENT_TYPE);
    response
}

#[cfg(test)]
mod tests;
