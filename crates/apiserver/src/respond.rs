//! Response encoding: from the result or error of `Serve` to status code, headers and bytes.
//!
//! Stored bytes are sent as they are; a list is written item by item into frames as the client reads.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WARNING, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use serde_json::Value;
use setpoint_api::{List, Status, Stored};
use setpoint_codec::media;
use setpoint_strategy::KindInfo;

use crate::body::{Body, FRAME_BYTES};
use crate::filters::flow_control::ExecutingRequest;
use crate::negotiate::{Format, Negotiated, Representation};
use crate::protobuf;
use crate::request::options::StatusError;
use crate::table::RenderOptions;

static JSON: HeaderValue = HeaderValue::from_static(media::JSON);
static YAML: HeaderValue = HeaderValue::from_static(media::YAML);
static PROTOBUF: HeaderValue = HeaderValue::from_static(media::PROTOBUF);
static PROTOBUF_WATCH: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch");
static TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
static NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache, private");

/// Maximum total length of the warnings of a response; if it is exceeded, each warning is truncated.
const MAX_WARNING_CHARACTERS: usize = 4096;
/// Length of a truncated warning.
const TRUNCATED_WARNING_CHARACTERS: usize = 256;

/// The body of a list.
#[derive(Debug)]
pub struct ListBody {
    render: RenderOptions,
    metadata: String,
    items: Vec<Arc<Stored>>,
    /// The first item that is not written yet.
    next: usize,
    state: State,
    /// The request, which occupies seats until the list is written.
    executing: ExecutingRequest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing is written yet; the head comes first.
    Head,
    /// The head and some items are written.
    Items,
    /// The end is written.
    Done,
}

// === impl ListBody ===

impl ListBody {
    pub(crate) fn new(render: RenderOptions, list: List) -> Self {
        let metadata = match render.has_sorted_keys() {
            true => custom_list_metadata(&list),
            false => list_metadata(&list),
        };
        Self {
            render,
            metadata,
            items: list.items,
            next: 0,
            state: State::Head,
            executing: ExecutingRequest::default(),
        }
    }

    /// Keeps the seats of the request until the list is written.
    pub(crate) fn hold(&mut self, request: ExecutingRequest) {
        self.executing = request;
    }

    /// A whole body if the list fits in one frame, otherwise a body of several frames.
    pub(crate) fn into_body(mut self) -> Body {
        let Some(first) = self.next_frame() else {
            return Body::Empty;
        };
        if self.state == State::Done {
            return Body::Whole(first);
        }
        (self.next, self.state) = (0, State::Head);
        Body::List(Box::new(self))
    }

    /// The next frame of the list; `None` after the end.
    pub(crate) fn next_frame(&mut self) -> Option<Bytes> {
        if self.state == State::Done {
            return None;
        }
        let mut out = Vec::with_capacity(FRAME_BYTES.min(self.rest_bytes()));
        if self.state == State::Head {
            self.render.write_list_head(&mut out, &self.metadata);
            self.state = State::Items;
        }
        while let Some(item) = self.items.get(self.next) {
            if out.len() + item.json().len() > FRAME_BYTES && !out.is_empty() {
                return Some(out.into());
            }
            if self.next > 0 {
                out.extend_from_slice(b",");
            }
            self.render.write_item(&mut out, item);
            self.next += 1;
        }
        self.state = State::Done;
        self.write_end(&mut out);
        self.executing.release_seats();
        Some(out.into())
    }

    fn write_end(&self, out: &mut Vec<u8>) {
        if self.items.is_empty()
            && matches!(
                self.render.representation,
                Representation::Metadata(_) | Representation::MetadataList(_)
            )
        {
            out.truncate(out.len() - 1);
            out.extend_from_slice(b"null}\n");
            return;
        }
        self.render.write_list_end(out, &self.metadata);
    }

    /// Approximate length of the whole list in bytes.
    pub(crate) fn length(&self) -> usize {
        self.items.iter().map(|item| item.json().len()).sum()
    }

    /// Approximate number of bytes left to write.
    fn rest_bytes(&self) -> usize {
        let items = self.items[self.next..]
            .iter()
            .take(64)
            .map(|item| item.json().len() + 1);
        512 + items.sum::<usize>()
    }

    fn into_bytes(mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(frame) = self.next_frame() {
            all.extend_from_slice(&frame);
        }
        all
    }
}

/// The metadata of a list, as a JSON object.
pub(crate) fn list_metadata(list: &List) -> String {
    let mut metadata = format!(r#"{{"resourceVersion":"{}""#, list.resource_version);
    if let Some(token) = &list.continue_token {
        metadata.push_str(&format!(r#","continue":{}"#, Value::from(token.as_str())));
    }
    if let Some(remaining) = list.remaining_item_count {
        metadata.push_str(&format!(r#","remainingItemCount":{remaining}"#));
    }
    metadata.push('}');
    metadata
}

/// The metadata of a list of custom resources. Its keys are sorted, and it always has a `continue` field, empty at the
/// end.
fn custom_list_metadata(list: &List) -> String {
    let token = Value::from(list.continue_token.as_deref().unwrap_or_default());
    let remaining = list
        .remaining_item_count
        .map(|count| format!(r#""remainingItemCount":{count},"#))
        .unwrap_or_default();
    let version = list.resource_version;
    format!(r#"{{"continue":{token},{remaining}"resourceVersion":"{version}"}}"#)
}

/// Response with one object.
pub(crate) fn object(negotiated: Negotiated, render: &RenderOptions, object: &Stored) -> Response<Body> {
    if negotiated.format == Format::Protobuf {
        let sealed = protobuf::object(render, object);
        return response(StatusCode::OK, &PROTOBUF, Body::Whole(sealed.into()));
    }
    let mut out = Vec::with_capacity(object.json().len() + 1);
    render.write_object(&mut out, object, true);
    encode(negotiated, StatusCode::OK, out)
}

/// Response with a list.
pub(crate) fn list(negotiated: Negotiated, render: RenderOptions, list: List) -> Response<Body> {
    if negotiated.format == Format::Protobuf && protobuf::has_standard_list(negotiated.representation) {
        return response(StatusCode::OK, &PROTOBUF, protobuf::list(&render, &list));
    }
    let items = ListBody::new(render, list);
    if negotiated.format == Format::Json && !negotiated.pretty {
        return response(StatusCode::OK, &JSON, items.into_body());
    }
    encode(negotiated, StatusCode::OK, items.into_bytes())
}

/// Response with a JSON object, encoded in the negotiated format.
pub(crate) fn encode(negotiated: Negotiated, code: StatusCode, mut json: Vec<u8>) -> Response<Body> {
    if negotiated.format == Format::Protobuf
        && let Some(sealed) = protobuf::seal_json(&json)
    {
        return response(code, &PROTOBUF, Body::Whole(sealed.into()));
    }
    if negotiated.format == Format::Yaml
        && let Some(yaml) = to_yaml(&json)
    {
        return response(code, &YAML, Body::Whole(yaml.into()));
    }
    // Kubernetes' encoder ends compact JSON with a line break, and indented JSON without.
    if negotiated.pretty {
        json = setpoint_codec::json::indent(&json);
    } else if json.last() != Some(&b'\n') {
        json.push(b'\n');
    }
    response(code, &JSON, Body::Whole(json.into()))
}

fn to_yaml(json: &[u8]) -> Option<String> {
    let tree = setpoint_codec::json::parse(json).ok()?;
    Some(setpoint_codec::yaml::write(&tree))
}

/// Response with a Status of success. Code 200 is left out of the body.
pub(crate) fn success(negotiated: Negotiated, status: &Status) -> Response<Body> {
    let json = status.to_json();
    let plain = json
        .strip_suffix(br#","code":200}"#)
        .map(|rest| [rest, b"}"].concat());
    encode(negotiated, http_code(status), plain.unwrap_or(json))
}

/// Error response.
pub(crate) fn error(negotiated: Negotiated, status: &Status) -> Response<Body> {
    let mut response = encode(negotiated, http_code(status), status.to_json());
    if let Some(seconds) = status
        .details
        .as_ref()
        .map(|details| details.retry_after_seconds)
        .filter(|s| *s > 0)
    {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    add_warnings(&mut response, &status.warnings);
    response
}

/// Plain text.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = response(code, &TEXT, Body::Whole(text.into()));
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

/// The 404 response for unknown paths.
pub(crate) fn page_not_found() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// The 429 response for requests rejected by flow control.
pub(crate) fn too_many_requests(retry_after_seconds: u64) -> Response<Body> {
    let message = "Too many requests, please try again later.\n";
    let mut response = text(StatusCode::TOO_MANY_REQUESTS, message);
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from(retry_after_seconds));
    response
}

/// Response with a watch.
pub(crate) fn stream(format: Format, body: Body) -> Response<Body> {
    let content_type = match format {
        Format::Protobuf => &PROTOBUF_WATCH,
        Format::Json | Format::Yaml => &JSON,
    };
    response(StatusCode::OK, content_type, body)
}

/// A response that shared caches must not store.
pub(crate) fn response(code: StatusCode, content_type: &HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type.clone());
    headers.insert(CACHE_CONTROL, NO_CACHE.clone());
    response
}

/// Adds warnings as `Warning` headers.
pub(crate) fn add_warnings(response: &mut Response<Body>, warnings: &[String]) {
    let total: usize = warnings.iter().map(|warning| warning.chars().count()).sum();
    let longest = if total > MAX_WARNING_CHARACTERS {
        TRUNCATED_WARNING_CHARACTERS
    } else {
        usize::MAX
    };
    let mut left = MAX_WARNING_CHARACTERS;
    for (at, warning) in warnings.iter().enumerate() {
        // Duplicates are sent once.
        if warnings[..at].contains(warning) {
            continue;
        }
        let text: String = warning.chars().take(longest).collect();
        let Some(rest) = left.checked_sub(text.chars().count()) else {
            return;
        };
        left = rest;
        if let Ok(value) = HeaderValue::from_bytes(warning_value(&text).as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

/// Adds a warning before all others.
pub(crate) fn prepend_warning(response: &mut Response<Body>, warning: &String) {
    let headers = response.headers_mut();
    let later: Vec<HeaderValue> = headers.get_all(WARNING).iter().cloned().collect();
    headers.remove(WARNING);
    add_warnings(response, std::slice::from_ref(warning));
    for value in later {
        response.headers_mut().append(WARNING, value);
    }
}

/// A `Warning` header value: code 299, no agent, and the quoted text.
fn warning_value(text: &str) -> String {
    let mut value = String::with_capacity(text.len() + 12);
    value.push_str("299 - \"");
    for character in text.chars() {
        match character {
            '"' | '\\' => value.extend(['\\', character]),
            character if character.is_control() => value.push(' '),
            character => value.push(character),
        }
    }
    value.push('"');
    value
}

fn http_code(status: &Status) -> StatusCode {
    StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Rejects PartialObjectMetadata for a list and PartialObjectMetadataList for one object. The message has the Go type.
pub(crate) fn check_representation(
    representation: Representation,
    is_list: bool,
    info: &KindInfo,
) -> Result<(), StatusError> {
    let package = match info.gvk.group.split('.').next() {
        None | Some("") => "core",
        Some(first) => first,
    };
    let kind = if is_list {
        info.list_kind.as_str()
    } else {
        info.gvk.kind.as_str()
    };
    let message = match (representation, is_list) {
        (Representation::Metadata(_), true) => {
            format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{package}.{kind})"
            )
        }
        (Representation::MetadataList(_), false) => {
            format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{package}.{kind})"
            )
        }
        _ => return Ok(()),
    };
    Err(Box::new(Status {
        status: "Failure".to_owned(),
        message,
        reason: "NotAcceptable".to_owned(),
        code: 406,
        ..Status::default()
    }))
}

#[cfg(test)]
pub(crate) mod tests;
