//! Status of gRPC calls.

use http::HeaderMap;

/// The outcome of a call that failed: a code and the server's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub code: Code,
    pub message: String,
    /// Whether the call was not sent, since there was no connection: the server cannot have executed it.
    pub unsent: bool,
}

/// A status code of gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub u32);

impl Code {
    pub const OK: Self = Self(0);
    pub const UNKNOWN: Self = Self(2);
    pub const INVALID_ARGUMENT: Self = Self(3);
    pub const DEADLINE_EXCEEDED: Self = Self(4);
    pub const NOT_FOUND: Self = Self(5);
    pub const RESOURCE_EXHAUSTED: Self = Self(8);
    pub const FAILED_PRECONDITION: Self = Self(9);
    pub const OUT_OF_RANGE: Self = Self(11);
    pub const UNIMPLEMENTED: Self = Self(12);
    pub const INTERNAL: Self = Self(13);
    pub const UNAVAILABLE: Self = Self(14);
    pub const UNAUTHENTICATED: Self = Self(16);

    /// The code's name, as Go's clients print it.
    fn name(self) -> &'static str {
        const NAMES: [&str; 17] = [
            "OK",
            "Canceled",
            "Unknown",
            "InvalidArgument",
            "DeadlineExceeded",
            "NotFound",
            "AlreadyExists",
            "PermissionDenied",
            "ResourceExhausted",
            "FailedPrecondition",
            "Aborted",
            "OutOfRange",
            "Unimplemented",
            "Internal",
            "Unavailable",
            "DataLoss",
            "Unauthenticated",
        ];
        NAMES.get(self.0 as usize).copied().unwrap_or("Unknown")
    }
}

impl Status {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            unsent: false,
        }
    }

    /// The status of a call that was not sent.
    pub(crate) fn unreachable(message: String) -> Self {
        Self::new(Code::UNAVAILABLE, message).into_unsent()
    }

    /// This status, of a call that was not sent.
    pub fn into_unsent(self) -> Self {
        Self { unsent: true, ..self }
    }

    /// The status of a call whose connection broke.
    pub(crate) fn broken(error: hyper::Error) -> Self {
        let text = match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        Self::new(Code::UNAVAILABLE, text)
    }

    /// The status in headers or trailers, if they have one.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok();
        let message = headers
            .get("grpc-message")
            .map(|value| percent_decode(value.as_bytes()));
        Some(Self {
            code: code.map_or(Code::UNKNOWN, Code),
            message: message.unwrap_or_default(),
            unsent: false,
        })
    }

    pub(crate) fn into_result(self) -> Result<(), Self> {
        if self.code == Code::OK { Ok(()) } else { Err(self) }
    }

    /// The text as Go's clients print it, which is what pods' statuses and events have.
    pub fn text(&self) -> String {
        format!("rpc error: code = {} desc = {}", self.code.name(), self.message)
    }
}

fn percent_decode(text: &[u8]) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let byte = match tail {
            [high, low, ..] if first == b'%' => hex(*high, *low),
            _ => None,
        };
        decoded.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_with_escapes_is_decoded() {
        assert_eq!(percent_decode(b"a%20b%0Ac %zz 5%"), "a b\nc %zz 5%");
    }

    #[test]
    fn the_text_is_that_of_go() {
        let status = Status::new(Code::NOT_FOUND, "no such image");
        assert_eq!(status.text(), "rpc error: code = NotFound desc = no such image");
    }
}
