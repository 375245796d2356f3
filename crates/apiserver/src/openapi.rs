//! OpenAPI: what the resources and their documents look like, for tools that ask before they write.
//!
//! The schemas come from the shapes of the kinds, the paths from the table of kinds. A document is made when it is first
//! asked for and kept: starting the server costs nothing.

use std::sync::OnceLock;

use http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH, LOCATION};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Map, Value, json};
use setpoint_kinds::Kinds;

use crate::body::Body;
use crate::chain::Exchange;
use crate::discovery::{Document, groups};
use crate::negotiate::{self, header};
use crate::request::options::Refused;
use crate::respond;

mod operations;
mod schemas;

use schemas::{Dialect, Schemas};

static JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The documents, made when first asked for.
#[derive(Debug, Default)]
pub(crate) struct OpenApi {
    /// Version 3, one document for each group and version, by path: `api/v1`, `apis/apps/v1`.
    third: OnceLock<Vec<(String, Document)>>,
    /// Version 2, everything in one document.
    second: OnceLock<Document>,
}

/// Answers a request for `/openapi/REST`.
pub(crate) fn answer(exchange: &Exchange<'_>, rest: &str) -> Result<Response<Body>, Refused> {
    let (openapi, kinds) = (&exchange.shared.openapi, &exchange.shared.kinds);
    match rest.trim_end_matches('/') {
        "v2" => {
            negotiate::document(&exchange.head.headers, exchange.query)?;
            Ok(tagged(exchange, openapi.second.get_or_init(|| second(kinds))))
        }
        "v3" => Ok(index(openapi.third(kinds))),
        path => Ok(
            match path
                .strip_prefix("v3/")
                .and_then(|path| openapi.find(kinds, path))
            {
                Some((path, document)) => versioned(exchange, path, document),
                None => respond::page_not_found(),
            },
        ),
    }
}

impl OpenApi {
    fn third(&self, kinds: &Kinds) -> &[(String, Document)] {
        self.third.get_or_init(|| third(kinds))
    }

    fn find(&self, kinds: &Kinds, path: &str) -> Option<(&str, &Document)> {
        let found = self.third(kinds).iter().find(|(own, _)| own == path)?;
        Some((&found.0, &found.1))
    }
}

/// Where the documents of version 3 are, each under a name that changes with its content.
fn index(documents: &[(String, Document)]) -> Response<Body> {
    let entry = |(path, document): &(String, Document)| {
        let url = format!("/openapi/v3/{path}?hash={}", document.hash);
        (path.clone(), json!({"serverRelativeURL": url}))
    };
    let paths: Map<String, Value> = documents.iter().map(entry).collect();
    let json = serde_json::to_vec(&json!({"paths": paths})).expect("an index is plain strings");
    respond::answer(StatusCode::OK, &JSON, Body::Whole(json.into()))
}

/// A document under a name of its own may be kept for ever; under a stale one it has moved.
fn versioned(exchange: &Exchange<'_>, path: &str, document: &Document) -> Response<Body> {
    let mut response = tagged(exchange, document);
    match exchange.query.text("hash") {
        None => {}
        Some(hash) if hash == document.hash => {
            let kept = HeaderValue::from_static("public, immutable");
            response.headers_mut().insert(CACHE_CONTROL, kept);
        }
        Some(_) => {
            let location = format!("/openapi/v3/{path}?hash={}", document.hash);
            response = Response::new(Body::Empty);
            *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
            let location = HeaderValue::try_from(location).expect("a path and a hash may stand in a header");
            response.headers_mut().insert(LOCATION, location);
        }
    }
    response
}

fn tagged(exchange: &Exchange<'_>, document: &Document) -> Response<Body> {
    let tag = format!("\"{}\"", document.hash);
    let mut response = match header(&exchange.head.headers, &IF_NONE_MATCH) == tag {
        true => {
            let mut response = Response::new(Body::Empty);
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        }
        false => respond::answer(StatusCode::OK, &JSON, Body::Whole(document.json.clone())),
    };
    let tag = HeaderValue::try_from(tag).expect("a tag is hexadecimal digits in quotes");
    response.headers_mut().insert(ETAG, tag);
    response
}

fn third(kinds: &Kinds) -> Vec<(String, Document)> {
    let mut documents = Vec::new();
    for group in groups::all(kinds) {
        for version in &group.versions {
            let path = match group.name {
                "" => format!("api/{version}"),
                name => format!("apis/{name}/{version}"),
            };
            documents.push((path, Document::new(&third_of(kinds, group.name, version))));
        }
    }
    documents
}

fn third_of(kinds: &Kinds, group: &str, version: &str) -> Value {
    let mut schemas = Schemas::new(Dialect::Third);
    let mut paths = Map::new();
    for kind in groups::kinds_of(kinds, group, version) {
        operations::write(&mut paths, &mut schemas, &**kind);
    }
    json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths,
        "components": {"schemas": schemas.into_map()},
    })
}

fn second(kinds: &Kinds) -> Document {
    let mut schemas = Schemas::new(Dialect::Second);
    let mut paths = Map::new();
    for kind in kinds.iter() {
        operations::write(&mut paths, &mut schemas, &**kind);
    }
    Document::new(&json!({
        "swagger": "2.0",
        "info": info(),
        "paths": paths,
        "definitions": schemas.into_map(),
    }))
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": crate::version::Version::server().git_version})
}

#[cfg(test)]
mod tests;
