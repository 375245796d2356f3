//! Answers: from what `Serve` returned, or refused, to status, headers and bytes.
//!
//! Stored bytes are sent as they are; a list is written item by item into frames as the caller reads.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WARNING, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use serde_json::Value;
use setpoint_api::{List, Status, Stored};
use setpoint_codec::media;
use setpoint_kinds::About;

use crate::body::{Body, FRAME_BYTES};
use crate::negotiate::{Form, Format, Wanted};
use crate::protobuf;
use crate::request::options::Refused;
use crate::table::Shown;

static JSON: HeaderValue = HeaderValue::from_static(media::JSON);
static YAML: HeaderValue = HeaderValue::from_static(media::YAML);
static PROTOBUF: HeaderValue = HeaderValue::from_static(media::PROTOBUF);
static FRAMES: HeaderValue = HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch");
static TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
static PRIVATE: HeaderValue = HeaderValue::from_static("no-cache, private");

/// All warnings of one answer together may be this long; beyond it each is cut short.
const WARNING_CHARACTERS: usize = 4096;
/// What is left of a warning that is cut short.
const SHORT_WARNING_CHARACTERS: usize = 256;

/// A list on its way out.
#[derive(Debug)]
pub struct Items {
    shown: Shown,
    metadata: String,
    items: Vec<Arc<Stored>>,
    /// The first item that is not written yet.
    next: usize,
    state: State,
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

// === impl Items ===

impl Items {
    pub(crate) fn new(shown: Shown, list: List) -> Self {
        let metadata = match shown.form {
            Form::Plain if shown.kind.about().defined => custom_list_metadata(&list),
            _ => list_metadata(&list),
        };
        Self {
            shown,
            metadata,
            items: list.items,
            next: 0,
            state: State::Head,
        }
    }

    /// A whole body if everything fits in one frame, otherwise a body that goes on.
    pub(crate) fn into_body(mut self) -> Body {
        let Some(first) = self.next_frame() else {
            return Body::Empty;
        };
        if self.state == State::Done {
            return Body::Whole(first);
        }
        (self.next, self.state) = (0, State::Head);
        Body::Items(Box::new(self))
    }

    /// The next part of the list; `None` after the end.
    pub(crate) fn next_frame(&mut self) -> Option<Bytes> {
        if self.state == State::Done {
            return None;
        }
        let mut out = Vec::with_capacity(FRAME_BYTES.min(self.rest_bytes()));
        if self.state == State::Head {
            self.shown.write_list_head(&mut out, &self.metadata);
            self.state = State::Items;
        }
        while let Some(item) = self.items.get(self.next) {
            if out.len() + item.json().len() > FRAME_BYTES && !out.is_empty() {
                return Some(out.into());
            }
            if self.next > 0 {
                out.extend_from_slice(b",");
            }
            self.shown.write_item(&mut out, item);
            self.next += 1;
        }
        self.state = State::Done;
        self.write_end(&mut out);
        Some(out.into())
    }

    fn write_end(&self, out: &mut Vec<u8>) {
        if self.items.is_empty() && matches!(self.shown.form, Form::Metadata(_) | Form::MetadataList(_)) {
            out.truncate(out.len() - 1);
            out.extend_from_slice(b"null}\n");
            return;
        }
        out.extend_from_slice(b"]}\n");
    }

    /// About how many bytes the whole list has.
    pub(crate) fn length(&self) -> usize {
        self.items.iter().map(|item| item.json().len()).sum()
    }

    /// About how many bytes are still to be written.
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
    if let Some(remaining) = list.remaining {
        metadata.push_str(&format!(r#","remainingItemCount":{remaining}"#));
    }
    metadata.push('}');
    metadata
}

/// A list of a kind that a definition made tells its end in so many words.
fn custom_list_metadata(list: &List) -> String {
    let metadata = list_metadata(list);
    match &list.continue_token {
        None => metadata.replacen('{', r#"{"continue":"","#, 1),
        Some(_) => metadata,
    }
}

/// An object, in the form that was asked for.
pub(crate) fn object(wanted: Wanted, shown: &Shown, object: &Stored) -> Response<Body> {
    if wanted.format == Format::Protobuf {
        let sealed = protobuf::object(shown, object);
        return answer(StatusCode::OK, &PROTOBUF, Body::Whole(sealed.into()));
    }
    let mut out = Vec::with_capacity(object.json().len() + 1);
    shown.write_object(&mut out, object, true);
    document(wanted, StatusCode::OK, out)
}

/// A list, in the form that was asked for.
pub(crate) fn list(wanted: Wanted, shown: Shown, list: List) -> Response<Body> {
    if wanted.format == Format::Protobuf && protobuf::has_list(wanted.form) {
        return answer(StatusCode::OK, &PROTOBUF, protobuf::list(&shown, &list));
    }
    let items = Items::new(shown, list);
    if wanted.format == Format::Json && !wanted.pretty {
        return answer(StatusCode::OK, &JSON, items.into_body());
    }
    document(wanted, StatusCode::OK, items.into_bytes())
}

/// A JSON document, in the format that was asked for.
pub(crate) fn document(wanted: Wanted, code: StatusCode, mut json: Vec<u8>) -> Response<Body> {
    if wanted.format == Format::Protobuf
        && let Some(sealed) = protobuf::document(&json)
    {
        return answer(code, &PROTOBUF, Body::Whole(sealed.into()));
    }
    if wanted.format == Format::Yaml
        && let Some(yaml) = to_yaml(&json)
    {
        return answer(code, &YAML, Body::Whole(yaml.into()));
    }
    if wanted.pretty {
        json = setpoint_codec::json::indent(&json);
    }
    if json.last() != Some(&b'\n') {
        json.push(b'\n');
    }
    answer(code, &JSON, Body::Whole(json.into()))
}

fn to_yaml(json: &[u8]) -> Option<String> {
    let tree = setpoint_codec::json::parse(json).ok()?;
    Some(setpoint_codec::yaml::write(&tree))
}

/// A success that has only a status to show. Its code goes without saying unless it is unusual.
pub(crate) fn success(wanted: Wanted, status: &Status) -> Response<Body> {
    let json = status.to_json();
    let plain = json
        .strip_suffix(br#","code":200}"#)
        .map(|rest| [rest, b"}"].concat());
    document(wanted, code_of(status), plain.unwrap_or(json))
}

/// A refusal.
pub(crate) fn failure(wanted: Wanted, status: &Status) -> Response<Body> {
    let mut response = document(wanted, code_of(status), status.to_json());
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
    warn(&mut response, &status.warnings);
    response
}

/// Plain text.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = answer(code, &TEXT, Body::Whole(text.into()));
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

/// What is told about paths that nobody knows.
pub(crate) fn page_not_found() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// What is told to a caller who has more under way than its share.
pub(crate) fn too_many_requests() -> Response<Body> {
    let told = "Too many requests, please try again later.\n";
    let mut response = text(StatusCode::TOO_MANY_REQUESTS, told);
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// A stream of events that begins now and goes on.
pub(crate) fn stream(format: Format, body: Body) -> Response<Body> {
    let content_type = match format {
        Format::Protobuf => &FRAMES,
        Format::Json | Format::Yaml => &JSON,
    };
    answer(StatusCode::OK, content_type, body)
}

/// An answer that no one but the caller may keep.
pub(crate) fn answer(code: StatusCode, content_type: &HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type.clone());
    headers.insert(CACHE_CONTROL, PRIVATE.clone());
    response
}

/// Adds what the caller should know although it succeeded.
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    let total: usize = warnings.iter().map(|warning| warning.chars().count()).sum();
    let longest = if total > WARNING_CHARACTERS {
        SHORT_WARNING_CHARACTERS
    } else {
        usize::MAX
    };
    let mut left = WARNING_CHARACTERS;
    for (at, warning) in warnings.iter().enumerate() {
        // What is said already is not said again.
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

/// Adds what was known before anything was done, ahead of all else there is to say.
pub(crate) fn warn_first(response: &mut Response<Body>, warning: &String) {
    let headers = response.headers_mut();
    let said: Vec<HeaderValue> = headers.get_all(WARNING).iter().cloned().collect();
    headers.remove(WARNING);
    warn(response, std::slice::from_ref(warning));
    for value in said {
        response.headers_mut().append(WARNING, value);
    }
}

/// Code 299, no agent, and the text in quotes.
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

fn code_of(status: &Status) -> StatusCode {
    StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Refuses the metadata forms that do not fit one object or a list. The type is named as Kubernetes names it inside.
pub(crate) fn check_form(form: Form, is_list: bool, about: &About) -> Result<(), Refused> {
    let package = match about.gvk.group.split('.').next() {
        None | Some("") => "core",
        Some(first) => first,
    };
    let kind = if is_list {
        about.list_kind.as_str()
    } else {
        about.gvk.kind.as_str()
    };
    let message = match (form, is_list) {
        (Form::Metadata(_), true) => {
            format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{package}.{kind})"
            )
        }
        (Form::MetadataList(_), false) => {
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
