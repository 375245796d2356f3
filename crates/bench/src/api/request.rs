//! Pre-encoded requests, in which only a number changes.

use std::io::Write;

/// The content type of a request and the accepted type of its response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encoding {
    content: &'static str,
    accept: &'static str,
}

/// A server-side apply, whose YAML may be JSON.
pub(crate) const APPLY: Encoding = Encoding {
    content: "application/apply-patch+yaml",
    ..Encoding::JSON
};

pub(crate) const STRATEGIC: Encoding = Encoding {
    content: "application/strategic-merge-patch+json",
    ..Encoding::JSON
};

pub(crate) const MERGE: Encoding = Encoding {
    content: "application/merge-patch+json",
    ..Encoding::JSON
};

impl Encoding {
    pub(crate) const JSON: Encoding = Encoding {
        content: "application/json",
        accept: "application/json",
    };

    pub(crate) const PROTOBUF: Encoding = Encoding {
        content: "application/vnd.kubernetes.protobuf",
        accept: "application/vnd.kubernetes.protobuf",
    };
}

/// The placeholder for a number in a template: eight digits.
const SLOT: &[u8] = b"########";

/// A whole request, head and body, with slots for a number of eight digits.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    slots: Vec<usize>,
}

impl Template {
    /// A request without a body.
    pub(crate) fn without_body(method: &str, path: &str) -> Self {
        Self::from_bytes(encode(method, path, b""))
    }

    /// A request with a JSON body. Slots have the width of their number, so lengths never change.
    pub(crate) fn with_body(method: &str, path: &str, body: &str) -> Self {
        Self::from_bytes(encode(method, path, body.as_bytes()))
    }

    /// A request with a body of this encoding.
    pub(crate) fn with_encoding(method: &str, path: &str, encoding: Encoding, body: &[u8]) -> Self {
        Self::from_bytes(encode_as(method, path, encoding, body))
    }

    fn from_bytes(bytes: Vec<u8>) -> Self {
        let slots = (0..bytes.len().saturating_sub(SLOT.len() - 1))
            .filter(|at| bytes[*at..].starts_with(SLOT))
            .collect();
        Self { bytes, slots }
    }

    /// The request for this number, of which the last eight digits count.
    pub(crate) fn fill(&mut self, number: u64) -> &[u8] {
        let mut digits = [b'0'; SLOT.len()];
        let mut left = number;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
        for slot in &self.slots {
            self.bytes[*slot..slot + digits.len()].copy_from_slice(&digits);
        }
        &self.bytes
    }
}

/// A JSON request, encoded now.
pub(crate) fn encode(method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    encode_as(method, path, Encoding::JSON, body)
}

/// A request of this encoding.
pub(crate) fn encode_as(method: &str, path: &str, encoding: Encoding, body: &[u8]) -> Vec<u8> {
    let Encoding { content, accept } = encoding;
    let mut bytes = Vec::with_capacity(256 + body.len());
    write!(
        bytes,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: setpoint-bench\r\nAccept: {accept}\r\n"
    )
    .expect("writing to memory does not fail");
    if !body.is_empty() {
        write!(
            bytes,
            "Content-Type: {content}\r\nContent-Length: {}\r\n",
            body.len()
        )
        .expect("writing to memory does not fail");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

/// The text value of the first field of this name in an object's JSON.
pub(crate) fn find_text<'a>(json: &'a [u8], field: &str) -> Option<&'a str> {
    let text = std::str::from_utf8(json).ok()?;
    let mut rest = text;
    loop {
        let at = rest.find(field)?;
        let (before, after) = (&rest[..at], &rest[at + field.len()..]);
        if let Some(value) = after.strip_prefix("\":\"").filter(|_| before.ends_with('"')) {
            return value.split('"').next();
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_gets_the_number() {
        let mut template = Template::with_body("POST", "/a/########", r#"{"name":"x-########"}"#);
        let request = String::from_utf8(template.fill(42).to_vec()).unwrap();
        assert!(request.starts_with("POST /a/00000042 HTTP/1.1\r\n"), "{request}");
        assert!(
            request.ends_with("Content-Length: 21\r\n\r\n{\"name\":\"x-00000042\"}"),
            "{request}"
        );
    }

    #[test]
    fn a_request_without_a_body_has_no_content_headers() {
        let request = String::from_utf8(encode("GET", "/readyz", b"")).unwrap();
        assert!(!request.contains("Content-"), "{request}");
        assert!(request.ends_with("\r\n\r\n"));
    }

    #[track_caller]
    fn check_text(json: &str, expected: Option<&str>) {
        assert_eq!(find_text(json.as_bytes(), "resourceVersion"), expected);
    }

    #[test]
    fn a_text_field_is_found_by_its_whole_name() {
        check_text(r#"{"metadata":{"resourceVersion":"17","uid":"x"}}"#, Some("17"));
        check_text(r#"{"oldresourceVersion":"3","resourceVersion":"17"}"#, Some("17"));
        check_text(r#"{"resourceVersion":17}"#, None);
    }
}
