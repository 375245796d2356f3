//! What a server says: status, headers in their order, body.

use std::io;

use serde_json::Value;

/// A whole answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The server will not take another request on this connection.
    pub closes: bool,
}

/// An answer up to its body.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
}

/// How the end of a body is told.
#[derive(Debug, PartialEq)]
pub(super) enum Framing {
    Length(usize),
    Chunked,
    UntilClosed,
}

/// A server may send many warnings.
const HEADERS_MAX: usize = 1000;

// === impl Answer ===

impl Answer {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Every header of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        find(&self.headers, name)
    }

    /// The body, where it is JSON.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

// === impl Head ===

impl Head {
    /// The head at the start of these bytes and its length, once it is whole.
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

    pub(super) fn framing(&self) -> Framing {
        let coding = find(&self.headers, "transfer-encoding").next();
        let length = find(&self.headers, "content-length").next();
        if coding.is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            Framing::Chunked
        } else if let Some(length) = length.and_then(|length| length.parse().ok()) {
            Framing::Length(length)
        } else {
            Framing::UntilClosed
        }
    }

    pub(super) fn into_answer(self, body: Vec<u8>) -> Answer {
        let asked = find(&self.headers, "connection").any(|value| value.eq_ignore_ascii_case("close"));
        let closes =
            asked || self.status == 101 || self.framing() == Framing::UntilClosed && self.has_body("GET");
        Answer {
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
