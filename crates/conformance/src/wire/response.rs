//! An HTTP response: status, headers in their order, body.

use std::io;

use serde_json::Value;

/// A complete response.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the server closes the connection after it.
    pub closes: bool,
}

/// The status line and headers of a response.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
}

/// How the length of a body is determined.
#[derive(Debug, PartialEq)]
pub(super) enum BodyFraming {
    Length(usize),
    Chunked,
    UntilClosed,
}

/// A server may send many warnings.
const HEADERS_MAX: usize = 1000;

// === impl Response ===

impl Response {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let header = self
            .headers
            .iter()
            .find(|(own, _)| own.eq_ignore_ascii_case(name));
        header.map(|(_, value)| value.as_str())
    }

    /// Every header of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        find(&self.headers, name)
    }

    /// The body as JSON, if it is JSON.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// The whole response as text, for assertions on it: the status line without its reason, the headers, the body.
    pub fn to_text(&self) -> String {
        let mut text = format!("HTTP/1.1 {} \r\n", self.status);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        format!("{text}\r\n{}", self.text())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

// === impl Head ===

impl Head {
    /// Parses the head at the start of these bytes. Returns it with its length, or `None` if it is incomplete.
    pub(super) fn parse(bytes: &[u8]) -> io::Result<Option<(Self, usize)>> {
        let mut headers = vec![httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let parsed = response.parse(bytes).map_err(io::Error::other)?;
        let httparse::Status::Complete(length) = parsed else {
            return Ok(None);
        };
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let head = Self {
            status: response.code.unwrap_or_default(),
            headers: response
                .headers
                .iter()
                .map(|header| (header.name.to_owned(), text(header.value)))
                .collect(),
        };
        Ok(Some((head, length)))
    }

    pub(super) fn has_body(&self, method: &str) -> bool {
        method != "HEAD" && self.status >= 200 && !matches!(self.status, 204 | 304)
    }

    pub(super) fn framing(&self) -> BodyFraming {
        let coding = find(&self.headers, "transfer-encoding").next();
        let length = find(&self.headers, "content-length").next();
        if coding.is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            BodyFraming::Chunked
        } else if let Some(length) = length.and_then(|length| length.parse().ok()) {
            BodyFraming::Length(length)
        } else {
            BodyFraming::UntilClosed
        }
    }

    pub(super) fn into_response(self, body: Vec<u8>) -> Response {
        let is_close = find(&self.headers, "connection").any(|value| value.eq_ignore_ascii_case("close"));
        let closes = is_close
            || self.status == 101
            || self.framing() == BodyFraming::UntilClosed && self.has_body("GET");
        Response {
            closes,
            status: self.status,
            headers: self.headers,
            body,
        }
    }
}

fn find<'a>(headers: &'a [(String, String)], name: &'a str) -> impl Iterator<Item = &'a str> {
    headers
        .iter()
        .filter(move |(own, _)| own.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
}
