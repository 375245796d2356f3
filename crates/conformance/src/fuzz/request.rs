//! A fuzzed request: target, body, and how it is sent.

use std::io;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::{Inputs, Target, body};
use crate::time;
use crate::wire::{Connection, Request, Response};

/// A request and how it is sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FuzzRequest {
    pub(super) request: Request,
    pub(super) delivery: Delivery,
}

/// How the bytes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// In one write. A response is required.
    Whole,
    /// Slowly, in so many writes.
    SlowWrites(usize),
    /// `Content-Length` is more than what is sent before the connection is dropped.
    Truncated,
    /// With chunked encoding.
    Chunked,
    /// With invalid chunk sizes.
    InvalidChunks,
}

const PAUSE: Duration = Duration::from_millis(2);
const METHODS: &[&str] = &[
    "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW",
];
const NAMES: usize = 6;

const ODD_NAMES: &[&str] = &[
    "A_B",
    "%00",
    "%2e%2e",
    "..",
    "a%2Fb",
    "%F0%9F%92%A9",
    "%ff",
    "x%20y",
    "-",
    "%E2%80%AE",
    "name?x",
    "a;b",
    "%%",
    "%zz",
];

const ODD_PATHS: &[&str] = &[
    "/",
    "//",
    "/api//v1",
    "/apis/",
    "/apis//v1/x",
    "/api/v1/namespaces//pods",
    "/api/v1/watch",
    "/api/v1/watch/",
    "/apis/a/b/c/d/e/f/g/h",
    "/api/v1/namespaces/fuzz/pods/x/y/z",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/openapi/v3/../v2",
    "/openapi/v3/apis/none",
    "/metrics/x",
    "/readyz/none",
    "/livez?verbose&exclude=%00",
    "/version/",
    "/logs",
    "/.well-known/x",
    "*",
];

const QUERIES: &[&str] = &[
    "limit=99999999999999999999",
    "limit=-5",
    "limit=2",
    "continue=%00%ff",
    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
    "resourceVersion=abc",
    "resourceVersion=0",
    "resourceVersion=18446744073709551616",
    "resourceVersionMatch=Exact",
    "labelSelector=((",
    "labelSelector=a%20in%20(",
    "labelSelector=%00",
    "fieldSelector=a%3D%3D%3Db",
    "fieldSelector=metadata.name%3Dn1",
    "dryRun=All",
    "dryRun=Some&dryRun=All",
    "fieldManager=%FF%00",
    "fieldManager=fuzz",
    "force=maybe",
    "force=true",
    "fieldValidation=Strict",
    "fieldValidation=Odd",
    "pretty=%22",
    "gracePeriodSeconds=-1",
    "gracePeriodSeconds=99999999999999999999999",
    "propagationPolicy=Odd",
    "orphanDependents=x",
    "timeoutSeconds=1",
    "timeout=1x",
    "timeout=-5s",
    "allowWatchBookmarks=2",
    "sendInitialEvents=true",
    "includeObject=Odd",
    "container=%00",
    "command=&command=",
    "=&=&&&",
    "%zz=%zz",
    "watch=false",
];

const MEDIA: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
    "text/plain",
    "application/json; charset=utf-99",
    "*/*",
    "application/",
    "",
    ";;;",
    "multipart/form-data; boundary=x",
];

const ACCEPTS: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/json;as=Odd;g=x;v=y",
    "*/*",
    "text/html;q=0.9,*/*;q=0",
    ",,,",
    "application/json;q=x",
    "a/b;c=d;e",
];

const PATCHES: &[&str] = &[
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
];

/// Builds a random request to a resource that the server serves.
pub(super) fn build(inputs: &Inputs, rng: &mut StdRng) -> FuzzRequest {
    let target = inputs.targets.choose(rng).expect("discovery has resources");
    let method = method(rng);
    let mut request = Request::new(method, &path(target, method, rng));
    if rng.random_bool(0.3) {
        request = request.header("Accept", pick(ACCEPTS, rng));
    }
    if matches!(method, "POST" | "PUT" | "PATCH") || rng.random_bool(0.1) {
        let media = media(method, rng);
        let bytes = body::build(inputs, target, media, rng);
        request = request.body(media, bytes);
    }
    if rng.random_bool(0.05) {
        request = request.header("Impersonate-User", pick(&["nobody", "", "system:masters"], rng));
    }
    FuzzRequest {
        delivery: delivery(&request, rng),
        request,
    }
}

/// Sends a request and reads its response; of a watch, only the head.
pub(super) fn send(connection: &mut Connection, request: &FuzzRequest) -> io::Result<Response> {
    let bytes = match request.delivery {
        Delivery::Chunked | Delivery::InvalidChunks => chunked(connection, request),
        _ => connection.to_bytes(&request.request),
    };
    match request.delivery {
        Delivery::SlowWrites(count) => {
            for chunk in bytes.chunks(bytes.len().div_ceil(count)) {
                // A server may reject a body before it has received all of it; its response counts.
                if connection.send(chunk).is_err() {
                    break;
                }
                time::sleep(PAUSE);
            }
        }
        Delivery::Truncated => {
            let length = bytes.len() - request.request.body.as_ref().map_or(0, |body| body.len() / 2 + 1);
            connection.send(&bytes[..length])?;
            return Ok(Response::default());
        }
        _ => {
            let _ = connection.send(&bytes);
        }
    }
    match request.is_watch() {
        true => connection.receive_start(&request.request.method),
        false => connection.receive(&request.request.method),
    }
}

// === impl FuzzRequest ===

impl FuzzRequest {
    /// Whether the connection can be used again.
    pub(super) fn is_well_framed(&self) -> bool {
        matches!(
            self.delivery,
            Delivery::Whole | Delivery::SlowWrites(_) | Delivery::Chunked
        ) && !self.is_watch()
    }

    /// Whether the response may be a stream.
    pub(super) fn is_watch(&self) -> bool {
        let path = &self.request.path;
        path.contains("watch=true") || path.contains("/watch/") || path.contains("sendInitialEvents")
    }
}

fn method(rng: &mut StdRng) -> &'static str {
    match rng.random_range(0..100) {
        0..30 => "POST",
        30..48 => "PUT",
        48..72 => "PATCH",
        72..85 => "GET",
        85..92 => "DELETE",
        _ => pick(METHODS, rng),
    }
}

fn path(target: &Target, method: &str, rng: &mut StdRng) -> String {
    if rng.random_bool(0.04) {
        return pick(ODD_PATHS, rng).to_owned();
    }
    let mut path = target.collection();
    let is_object = if method == "POST" {
        rng.random_bool(0.1)
    } else {
        rng.random_bool(0.8)
    };
    if is_object {
        path = format!("{path}/{}", name(rng));
        if rng.random_bool(0.25) {
            let own = target.subresources.choose(rng).map_or("status", String::as_str);
            path = format!("{path}/{}", if rng.random_bool(0.9) { own } else { "odd" });
        }
    }
    let mut query: Vec<&str> = Vec::new();
    while rng.random_bool(0.25) {
        query.push(pick(QUERIES, rng));
    }
    if method == "GET" && rng.random_bool(0.08) {
        query.push("watch=true");
    }
    match query.is_empty() {
        true => path,
        false => format!("{path}?{}", query.join("&")),
    }
}

fn name(rng: &mut StdRng) -> String {
    match rng.random_bool(0.9) {
        true => format!("n{}", rng.random_range(0..NAMES)),
        false => pick(ODD_NAMES, rng).to_owned(),
    }
}

fn media(method: &str, rng: &mut StdRng) -> &'static str {
    match (method, rng.random_bool(0.85)) {
        ("PATCH", true) => pick(PATCHES, rng),
        (_, true) => pick(
            &[
                "application/json",
                "application/json",
                "application/yaml",
                "application/vnd.kubernetes.protobuf",
            ],
            rng,
        ),
        _ => pick(MEDIA, rng),
    }
}

fn delivery(request: &Request, rng: &mut StdRng) -> Delivery {
    if request.body.as_ref().is_none_or(Vec::is_empty) {
        return Delivery::Whole;
    }
    match rng.random_range(0..100) {
        0..4 => Delivery::SlowWrites(rng.random_range(2..5)),
        4..7 => Delivery::Truncated,
        7..10 => Delivery::Chunked,
        10..12 => Delivery::InvalidChunks,
        _ => Delivery::Whole,
    }
}

/// The encoded request with a chunked body.
fn chunked(connection: &Connection, fuzzed: &FuzzRequest) -> Vec<u8> {
    let mut request = fuzzed.request.clone();
    let body = request.body.take().unwrap_or_default();
    let head = connection.to_bytes(&request.header("Transfer-Encoding", "chunked"));
    let text = String::from_utf8_lossy(&head).replace("Content-Length: 0\r\n", "");
    let mut bytes = text.into_bytes();
    for chunk in body.chunks(body.len().div_ceil(3).max(1)) {
        let size = match fuzzed.delivery {
            Delivery::InvalidChunks => "zz".to_owned(),
            _ => format!("{:x}", chunk.len()),
        };
        bytes.extend_from_slice(format!("{size}\r\n").as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

pub(super) fn pick(choices: &[&'static str], rng: &mut StdRng) -> &'static str {
    choices.choose(rng).expect("the list is not empty")
}
