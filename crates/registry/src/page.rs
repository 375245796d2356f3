//! Continue tokens of paginated lists.

use base64::Engine;
use base64::engine::general_purpose::{NO_PAD, URL_SAFE_NO_PAD};
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use serde::Serialize;

use setpoint_api::{ResourceVersion, Status};
use setpoint_schema::Tree;

const FORM: &str = "meta.k8s.io/v1";
const LENIENT_CONFIG: GeneralPurposeConfig = NO_PAD.with_decode_allow_trailing_bits(true);
const LENIENT: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::URL_SAFE, LENIENT_CONFIG);

/// The position at which a list continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    /// The version of the first page; none to continue with the current objects.
    pub(crate) version: Option<ResourceVersion>,
    /// The key to start at, without the resource's prefix. Keys that start with a zero byte sort before it.
    pub(crate) start: String,
}

#[derive(Debug, Default, Serialize)]
struct Token {
    v: String,
    rv: i64,
    start: String,
}

impl Page {
    /// The page that starts after this key.
    pub(crate) fn after(version: ResourceVersion, key: &str) -> Self {
        Self {
            version: Some(version),
            start: format!("{key}\0"),
        }
    }

    pub(crate) fn to_token(&self) -> String {
        let version = self.version.map_or(-1, |version| version.0.cast_signed());
        let token = Token {
            v: FORM.to_owned(),
            rv: version,
            start: self.start.clone(),
        };
        let json = serde_json::to_vec(&token).expect("a token has only strings and numbers");
        URL_SAFE_NO_PAD.encode(json)
    }

    pub(crate) fn from_token(text: &str) -> Result<Self, Status> {
        let json = decode(text).map_err(|at| invalid(format!("illegal base64 data at input byte {at}")))?;
        let token = read(&json).map_err(invalid)?;
        if token.v != FORM {
            return Err(invalid(format!(
                "server does not recognize this encoded version {}",
                token.v
            )));
        }
        if token.rv == 0 {
            return Err(invalid(
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ));
        }
        if token.start.is_empty() {
            return Err(invalid("encoded start key empty (version meta.k8s.io/v1)"));
        }
        if !is_clean(&token.start) {
            return Err(invalid(token.start));
        }
        Ok(Self {
            version: (token.rv > 0).then_some(ResourceVersion(token.rv.cast_unsigned())),
            start: token.start,
        })
    }
}

/// Decodes URL-safe base64 without padding, as Go does: line breaks and trailing bits are ignored. The error is the
/// index of the first invalid byte.
fn decode(text: &str) -> Result<Vec<u8>, usize> {
    let digits: String = text
        .chars()
        .filter(|letter| !matches!(letter, '\r' | '\n'))
        .collect();
    let wrong = |byte: u8| !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if let Some(at) = text
        .bytes()
        .position(|byte| wrong(byte) && !matches!(byte, b'\r' | b'\n'))
    {
        return Err(at);
    }
    LENIENT.decode(digits).map_err(|_| text.len() - 1)
}

/// Decodes the token, with the error messages of Go's `encoding/json`.
fn read(json: &[u8]) -> Result<Token, String> {
    let tree = setpoint_codec::json::parse(json).map_err(|error| error.to_string())?;
    let whole =
        |kind: &str| format!("json: cannot unmarshal {kind} into Go value of type storage.continueToken");
    let member = |kind: &str, name: &str, expected: &str| {
        format!("json: cannot unmarshal {kind} into Go struct field continueToken.{name} of type {expected}")
    };
    let map = match &tree {
        Tree::Map(map) => map,
        Tree::Null => return Ok(Token::default()),
        other => return Err(whole(other.type_name())),
    };
    let text = |name: &str| match map.get(name) {
        None | Some(Tree::Null) => Ok(String::new()),
        Some(Tree::Str(text)) => Ok(text.to_string()),
        Some(other) => Err(member(other.type_name(), name, "string")),
    };
    let number = match map.get("rv") {
        None | Some(Tree::Null) => 0,
        Some(Tree::Int(number)) => *number,
        Some(Tree::Float(number)) => return Err(member(&format!("number {number}"), "rv", "int64")),
        Some(other) => return Err(member(other.type_name(), "rv", "int64")),
    };
    Ok(Token {
        v: text("v")?,
        rv: number,
        start: text("start")?,
    })
}

/// Whether a key is a clean path: no segment is empty, `.` or `..`.
fn is_clean(start: &str) -> bool {
    let steps = start.strip_prefix('/').unwrap_or(start);
    steps.split('/').all(|step| !matches!(step, "" | "." | ".."))
}

fn invalid(why: impl std::fmt::Display) -> Status {
    Status::bad_request(format!(
        "invalid continue token: continue key is not valid: {why}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_as_it_was_written() {
        let page = Page::after(ResourceVersion(42), "default/web");
        assert_eq!(Page::from_token(&page.to_token()).unwrap(), page);
        let json = URL_SAFE_NO_PAD.decode(page.to_token()).unwrap();
        assert_eq!(
            String::from_utf8(json).unwrap(),
            r#"{"v":"meta.k8s.io/v1","rv":42,"start":"default/web\u0000"}"#
        );
    }

    #[test]
    fn a_page_of_current_objects_has_no_version() {
        let page = Page {
            version: None,
            start: "a\0".to_owned(),
        };
        assert_eq!(Page::from_token(&page.to_token()).unwrap(), page);
    }

    #[track_caller]
    fn check(token: &str, expected: &str) {
        let status = Page::from_token(token).unwrap_err();
        assert_eq!(status.code, 400);
        assert_eq!(
            status.message,
            format!("invalid continue token: continue key is not valid: {expected}")
        );
    }

    #[test]
    fn an_invalid_token_is_rejected_with_the_message_of_kubernetes() {
        let token = |json: &str| URL_SAFE_NO_PAD.encode(json);
        check(
            "garbage",
            r"invalid character '\u0081' looking for beginning of value",
        );
        check("?", "illegal base64 data at input byte 0");
        check("abcde", "illegal base64 data at input byte 4");
        check("abc=", "illegal base64 data at input byte 3");
        check("", "unexpected end of JSON input");
        check(&token("{"), "unexpected end of JSON input");
        check(
            &token(r#"{"v":1}"#),
            "json: cannot unmarshal number into Go struct field continueToken.v of type string",
        );
        check(
            &token("[]"),
            "json: cannot unmarshal array into Go value of type storage.continueToken",
        );
        check(
            &token(r#"{"v":"x"}"#),
            "server does not recognize this encoded version x",
        );
        check(
            &token(r#"{"v":"meta.k8s.io/v1","start":"a"}"#),
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        );
        check(
            &token(r#"{"v":"meta.k8s.io/v1","rv":1}"#),
            "encoded start key empty (version meta.k8s.io/v1)",
        );
        check(&token(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../a"}"#), "../a");
    }
}
