//! Decoding of HTTP responses: an API response, or the Status of an error.

use ::http::response::Parts;
use ::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;
use setpoint_api::status::Details;
use setpoint_api::{Body, Response, Status, Verb};
use setpoint_codec::protobuf::builtin::BuiltinObject;

use super::connect::{ConnectionGuard, PooledResponse};
use super::encoding::WireFormat;
use super::gzip::{self, GzipDecoder};
use super::watch::WatchStream;
use crate::decode;

/// An error response.
#[derive(Debug)]
pub(crate) struct ResponseError {
    pub(crate) status: Status,
    /// The seconds after which the server accepts a retry, from `Retry-After`.
    pub(crate) retry_after: Option<u64>,
}

/// Decodes a response; a watch becomes a stream.
pub(crate) async fn read(pooled: PooledResponse, verb: &Verb) -> Result<Response, ResponseError> {
    let PooledResponse { response, guard } = pooled;
    let (head, body) = response.into_parts();
    let warnings = warnings(&head.headers);
    let created = head.status == StatusCode::CREATED;
    let format = WireFormat::of_response(&head.headers);
    if head.status.is_success() && matches!(verb, Verb::Watch(_)) {
        let decoder = gzip::is_gzipped(&head.headers).then(GzipDecoder::new);
        let body = Body::Watch(Box::pin(WatchStream::new(body, decoder, format, guard)));
        return Ok(Response {
            body,
            warnings,
            audit_annotations: Vec::new(),
            created,
        });
    }
    let bytes = read_body(&head, body, guard).await?;
    let body = match format {
        WireFormat::Json => decode_json(bytes, verb),
        WireFormat::Protobuf => decode_protobuf(&bytes, verb),
    };
    let body = body.map_err(|error| ResponseError::from(Status::internal(error)))?;
    Ok(Response {
        body,
        warnings,
        audit_annotations: Vec::new(),
        created,
    })
}

/// The body of a response that is not an API object.
pub(crate) async fn read_bytes(pooled: PooledResponse) -> Result<Bytes, ResponseError> {
    let PooledResponse { response, guard } = pooled;
    let (head, body) = response.into_parts();
    read_body(&head, body, guard).await
}

async fn read_body(head: &Parts, body: Incoming, guard: ConnectionGuard) -> Result<Bytes, ResponseError> {
    let interrupted =
        |error: &dyn std::fmt::Display| Status::unavailable(format!("the response was cut off: {error}"));
    let bytes = body.collect().await.map_err(|error| interrupted(&error))?;
    let mut bytes = bytes.to_bytes();
    guard.release().await;
    if gzip::is_gzipped(&head.headers) {
        bytes = gzip::decompress(&bytes).map_err(|error| interrupted(&error))?;
    }
    if head.status.is_success() {
        return Ok(bytes);
    }
    Err(ResponseError {
        status: error_status(head.status, &head.headers, &bytes),
        retry_after: retry_after(head.status, &head.headers),
    })
}

fn decode_json(bytes: Bytes, verb: &Verb) -> Result<Body, decode::Error> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(default)]
        kind: String,
    }
    if matches!(verb, Verb::List(_)) {
        return decode::list(&bytes).map(Body::List);
    }
    let Kind { kind } = setpoint_api::json::from_slice(&bytes)?;
    if kind == "Status" {
        return Ok(Body::Status(setpoint_api::json::from_slice(&bytes)?));
    }
    if matches!(verb, Verb::DeleteCollection(..)) {
        return decode::list(&bytes).map(Body::List);
    }
    let object = decode::object(bytes.clone())?;
    // A virtual object, such as a review, exists in this response only and has no uid.
    match object.uid() {
        "" => Ok(Body::Json(bytes)),
        _ => Ok(Body::Object(object)),
    }
}

fn decode_protobuf(bytes: &[u8], verb: &Verb) -> Result<Body, decode::Error> {
    if matches!(verb, Verb::List(_)) {
        return decode::protobuf_list(bytes).map(Body::List);
    }
    let document = BuiltinObject::open(bytes)?;
    if document.kind() == "Status" {
        return Ok(Body::Status(setpoint_api::json::from_slice(&document.to_json())?));
    }
    if matches!(verb, Verb::DeleteCollection(..)) {
        return decode::protobuf_list(bytes).map(Body::List);
    }
    let object = decode::protobuf_object(&document)?;
    match object.uid() {
        "" => Ok(Body::Json(object.json().clone())),
        _ => Ok(Body::Object(object)),
    }
}

fn error_status(code: StatusCode, headers: &HeaderMap, bytes: &[u8]) -> Status {
    let mut status = match decode_status(headers, bytes) {
        Some(status) if status.code != 0 && !status.status.is_empty() => status,
        _ => status_from_code(code, bytes),
    };
    if let Some(seconds) = retry_after_seconds(headers) {
        let details: &mut Details = status.details.get_or_insert_default();
        let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
        details.retry_after_seconds = details.retry_after_seconds.max(seconds);
    }
    status
}

/// The Status in the body of an error response, if there is one.
fn decode_status(headers: &HeaderMap, bytes: &[u8]) -> Option<Status> {
    match WireFormat::of_response(headers) {
        WireFormat::Json => setpoint_api::json::from_slice(bytes).ok(),
        WireFormat::Protobuf => {
            let document = BuiltinObject::open(bytes).ok()?;
            setpoint_api::json::from_slice(&document.to_json()).ok()
        }
    }
}

fn retry_after_seconds(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()
}

/// `Retry-After` is honoured for 429 and 5xx only, as in client-go.
fn retry_after(code: StatusCode, headers: &HeaderMap) -> Option<u64> {
    let is_transient = code == StatusCode::TOO_MANY_REQUESTS || code.is_server_error();
    retry_after_seconds(headers).filter(|_| is_transient)
}

impl From<Status> for ResponseError {
    fn from(status: Status) -> Self {
        Self {
            status,
            retry_after: None,
        }
    }
}

/// The Status of an error response without one, as from a proxy in between.
fn status_from_code(code: StatusCode, bytes: &[u8]) -> Status {
    let text = String::from_utf8_lossy(bytes);
    let message = match text.trim() {
        "" => code.canonical_reason().unwrap_or("unknown").to_owned(),
        text => text.to_owned(),
    };
    Status {
        status: "Failure".to_owned(),
        reason: reason(code.as_u16()).to_owned(),
        message,
        code: code.as_u16(),
        ..Status::default()
    }
}

fn reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        409 => "Conflict",
        410 => "Gone",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Unknown",
    }
}

/// The texts of `Warning` headers: `299 - "text"` (RFC 7234).
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let texts = headers
        .get_all(header::WARNING)
        .iter()
        .filter_map(|value| value.to_str().ok());
    texts.filter_map(warning).collect()
}

fn warning(value: &str) -> Option<String> {
    let quoted = value.strip_prefix("299 ")?.split_once(' ')?.1;
    let mut text = String::new();
    let mut chars = quoted.strip_prefix('"')?.chars();
    loop {
        match chars.next()? {
            '"' => return Some(text),
            '\\' => text.push(chars.next()?),
            char => text.push(char),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_warning(value: &str, expected: Option<&str>) {
        assert_eq!(warning(value).as_deref(), expected);
    }

    #[test]
    fn warnings_are_unquoted() {
        check_warning(r#"299 - "unknown field \"a\"""#, Some(r#"unknown field "a""#));
        check_warning(r#"299 - "a" "Sun, 06 Nov 1994 08:49:37 GMT""#, Some("a"));
        check_warning(r#"199 - "stale""#, None);
        check_warning(r#"299 - "never ends"#, None);
    }

    #[test]
    fn an_error_without_a_status_gets_one() {
        let status = error_status(StatusCode::BAD_GATEWAY, &HeaderMap::new(), b"<html>no</html>");
        assert_eq!((status.code, status.reason.as_str()), (502, "Unknown"));
        assert_eq!(status.message, "<html>no</html>");
    }

    /// Checks after how many seconds a request is retried, for a response with this code and `Retry-After`.
    #[track_caller]
    fn check_retry(code: u16, after: Option<&'static str>, expected: Option<u64>) {
        let after = after.map(|after| (header::RETRY_AFTER, after.parse().unwrap()));
        let headers = HeaderMap::from_iter(after);
        assert_eq!(
            retry_after(StatusCode::from_u16(code).unwrap(), &headers),
            expected
        );
    }

    #[test]
    fn only_responses_with_retry_after_are_retried() {
        check_retry(429, Some("7"), Some(7));
        check_retry(503, Some("1"), Some(1));
        check_retry(500, Some("0"), Some(0));
        check_retry(429, None, None);
        check_retry(409, Some("1"), None);
        check_retry(503, Some("tomorrow"), None);
    }

    #[test]
    fn retry_after_becomes_a_detail_of_the_status() {
        let headers = HeaderMap::from_iter([(header::RETRY_AFTER, "7".parse().unwrap())]);
        let status = error_status(StatusCode::TOO_MANY_REQUESTS, &headers, b"");
        assert_eq!(status.details.unwrap().retry_after_seconds, 7);
    }
}
