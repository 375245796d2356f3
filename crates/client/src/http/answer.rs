//! An HTTP answer as the API has it: a body, or a status that says why not.

use ::http::response::Parts;
use ::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;
use setpoint_api::status::Details;
use setpoint_api::{Body, Response, Status, Verb};
use setpoint_codec::protobuf::document::Document;

use super::connect::{Answer, Lease};
use super::inflate::{self, Inflate};
use super::language::Language;
use super::watch::Events;
use crate::stored;

/// Why a request was not carried out.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    /// In how many seconds the server wants to be asked again, if it does.
    pub(crate) retry_after: Option<u64>,
}

/// Reads an answer to its end; a watch is read as it comes.
pub(crate) async fn read(answer: Answer, verb: &Verb) -> Result<Response, Refusal> {
    let Answer { response, lease } = answer;
    let (head, body) = response.into_parts();
    let warnings = warnings(&head.headers);
    let created = head.status == StatusCode::CREATED;
    let language = Language::of_answer(&head.headers);
    if head.status.is_success() && matches!(verb, Verb::Watch(_)) {
        let inflate = inflate::is_packed(&head.headers).then(Inflate::new);
        let body = Body::Watch(Box::pin(Events::new(body, inflate, language, lease)));
        return Ok(Response {
            body,
            warnings,
            created,
        });
    }
    let bytes = whole(&head, body, lease).await?;
    let body = match language {
        Language::Json => success(bytes, verb),
        Language::Protobuf => success_in_protobuf(&bytes, verb),
    };
    let body = body.map_err(|error| Refusal::from(Status::internal(error)))?;
    Ok(Response {
        body,
        warnings,
        created,
    })
}

/// Reads an answer that is no object to its end.
pub(crate) async fn read_plain(answer: Answer) -> Result<Bytes, Refusal> {
    let Answer { response, lease } = answer;
    let (head, body) = response.into_parts();
    whole(&head, body, lease).await
}

async fn whole(head: &Parts, body: Incoming, lease: Lease) -> Result<Bytes, Refusal> {
    let broke_off =
        |error: &dyn std::fmt::Display| Status::unavailable(format!("the answer broke off: {error}"));
    let bytes = body.collect().await.map_err(|error| broke_off(&error))?;
    let mut bytes = bytes.to_bytes();
    lease.give_back().await;
    if inflate::is_packed(&head.headers) {
        bytes = inflate::whole(&bytes).map_err(|error| broke_off(&error))?;
    }
    if head.status.is_success() {
        return Ok(bytes);
    }
    Err(Refusal {
        status: refusal(head.status, &head.headers, &bytes),
        retry_after: retry_after(head.status, &head.headers),
    })
}

fn success(bytes: Bytes, verb: &Verb) -> Result<Body, stored::Error> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(default)]
        kind: String,
    }
    if matches!(verb, Verb::List(_)) {
        return stored::list(&bytes).map(Body::List);
    }
    let Kind { kind } = serde_json::from_slice(&bytes)?;
    if kind == "Status" {
        return Ok(Body::Status(serde_json::from_slice(&bytes)?));
    }
    if matches!(verb, Verb::DeleteCollection(..)) {
        return stored::list(&bytes).map(Body::List);
    }
    let object = stored::object(bytes.clone())?;
    // A review or another document that only lives in this answer has no identity.
    match object.uid() {
        "" => Ok(Body::Document(bytes)),
        _ => Ok(Body::Object(object)),
    }
}

fn success_in_protobuf(bytes: &[u8], verb: &Verb) -> Result<Body, stored::Error> {
    if matches!(verb, Verb::List(_)) {
        return stored::list_of_messages(bytes).map(Body::List);
    }
    let document = Document::open(bytes)?;
    if document.kind() == "Status" {
        return Ok(Body::Status(serde_json::from_slice(&document.to_json())?));
    }
    if matches!(verb, Verb::DeleteCollection(..)) {
        return stored::list_of_messages(bytes).map(Body::List);
    }
    let object = stored::object_of(&document)?;
    match object.uid() {
        "" => Ok(Body::Document(object.json().clone())),
        _ => Ok(Body::Object(object)),
    }
}

fn refusal(code: StatusCode, headers: &HeaderMap, bytes: &[u8]) -> Status {
    let mut status = match status_in(headers, bytes) {
        Some(status) if status.code != 0 && !status.status.is_empty() => status,
        _ => unworded(code, bytes),
    };
    if let Some(seconds) = seconds_after(headers) {
        let details: &mut Details = status.details.get_or_insert_default();
        let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
        details.retry_after_seconds = details.retry_after_seconds.max(seconds);
    }
    status
}

/// What the server says in words of the API, if it does.
fn status_in(headers: &HeaderMap, bytes: &[u8]) -> Option<Status> {
    match Language::of_answer(headers) {
        Language::Json => serde_json::from_slice(bytes).ok(),
        Language::Protobuf => {
            let document = Document::open(bytes).ok()?;
            serde_json::from_slice(&document.to_json()).ok()
        }
    }
}

fn seconds_after(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()
}

/// A server that has too much to do, or is in trouble, says when to try again. What it says with other answers is meant
/// for somebody else.
fn retry_after(code: StatusCode, headers: &HeaderMap) -> Option<u64> {
    let is_passing = code == StatusCode::TOO_MANY_REQUESTS || code.is_server_error();
    seconds_after(headers).filter(|_| is_passing)
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self {
            status,
            retry_after: None,
        }
    }
}

/// A refusal that did not come from the API itself but from something on the way.
fn unworded(code: StatusCode, bytes: &[u8]) -> Status {
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

/// `299 - "text"`, as RFC 7234 has it.
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
    fn a_refusal_without_words_of_the_api_gets_some() {
        let status = refusal(StatusCode::BAD_GATEWAY, &HeaderMap::new(), b"<html>no</html>");
        assert_eq!((status.code, status.reason.as_str()), (502, "Unknown"));
        assert_eq!(status.message, "<html>no</html>");
    }

    /// Whether a request is sent again after an answer with this code and a `Retry-After` of this.
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
    fn only_a_server_that_says_when_is_asked_again() {
        check_retry(429, Some("7"), Some(7));
        check_retry(503, Some("1"), Some(1));
        check_retry(500, Some("0"), Some(0));
        check_retry(429, None, None);
        check_retry(409, Some("1"), None);
        check_retry(503, Some("tomorrow"), None);
    }

    #[test]
    fn a_refusal_may_say_when_to_come_back() {
        let headers = HeaderMap::from_iter([(header::RETRY_AFTER, "7".parse().unwrap())]);
        let status = refusal(StatusCode::TOO_MANY_REQUESTS, &headers, b"");
        assert_eq!(status.details.unwrap().retry_after_seconds, 7);
    }
}
