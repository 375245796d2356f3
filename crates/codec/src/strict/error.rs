//! Errors of strict decoding.

use std::fmt::Write;

use compact_str::CompactString;
use setpoint_schema::Shape;

/// How many bytes of a body an error message quotes.
const SNIPPET_BYTES: usize = 30;

/// The group, version and kind of a body, with defaults from the expected kind for absent fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActualGvk {
    pub group: CompactString,
    pub version: CompactString,
    pub kind: CompactString,
}

/// A body that cannot be decoded. All of these are the caller's errors: 400 Bad Request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The kind of the body cannot be determined.
    #[error("the object provided is unrecognized (must be of type {expected}): {cause} ({snippet})")]
    Unrecognized {
        expected: CompactString,
        cause: String,
        snippet: String,
    },
    /// The body cannot be decoded as the expected kind.
    #[error("{kind} in version \"{version}\" cannot be handled as a {expected}: {cause}")]
    Unhandled {
        kind: CompactString,
        version: CompactString,
        expected: CompactString,
        cause: String,
    },
    /// The body is of the expected kind, in another version than the URL's.
    #[error("the API version in the data ({actual}) does not match the expected API version ({expected})")]
    VersionMismatch { actual: String, expected: String },
}

impl ActualGvk {
    /// `group/version`, or the version alone for the core group.
    pub fn api_version(&self) -> String {
        match self.group.is_empty() {
            true => self.version.to_string(),
            false => format!("{}/{}", self.group, self.version),
        }
    }
}

impl DecodeError {
    pub(super) fn unrecognized(shape: &Shape, cause: String, body: &[u8]) -> Self {
        DecodeError::Unrecognized {
            expected: expected(shape),
            cause,
            snippet: snippet(body),
        }
    }

    pub(super) fn unhandled(shape: &Shape, actual: &ActualGvk, cause: String) -> Self {
        let (kind, version) = (actual.kind.clone(), actual.version.clone());
        DecodeError::Unhandled {
            kind,
            version,
            expected: expected(shape),
            cause,
        }
    }

    /// The cause by itself, without the actual and expected kinds.
    pub fn cause(&self) -> String {
        match self {
            DecodeError::Unrecognized { cause, .. } | DecodeError::Unhandled { cause, .. } => cause.clone(),
            DecodeError::VersionMismatch { .. } => self.to_string(),
        }
    }
}

fn expected(shape: &Shape) -> CompactString {
    shape
        .gvk
        .as_ref()
        .map_or_else(|| shape.type_name().into(), |gvk| gvk.kind.clone())
}

/// The start of a body: as text if it looks like a JSON object, otherwise in hexadecimal.
fn snippet(body: &[u8]) -> String {
    let start = &body[..body.len().min(SNIPPET_BYTES)];
    let more = if body.len() > SNIPPET_BYTES { " ..." } else { "" };
    match body.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(start)),
        Some(_) => {
            let mut text = String::new();
            start
                .iter()
                .for_each(|byte| write!(text, "{byte:02x}").expect("a string takes any text"));
            text + more
        }
    }
}
