//! Why a body could not be used.

use std::fmt::Write;

use compact_str::CompactString;
use setpoint_schema::Shape;

/// How many bytes of a body an error shows.
const SHOWN_BYTES: usize = 30;

/// The group, version and kind a document says it has, or is taken to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub group: CompactString,
    pub version: CompactString,
    pub kind: CompactString,
}

/// Why a body could not be used. All of these are the caller's fault: a bad request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It cannot be told what the body is.
    #[error("the object provided is unrecognized (must be of type {wanted}): {cause} ({shown})")]
    Unrecognized {
        wanted: CompactString,
        cause: String,
        shown: String,
    },
    /// It is something, but cannot be read as what is wanted.
    #[error("{kind} in version \"{version}\" cannot be handled as a {wanted}: {cause}")]
    Unhandled {
        kind: CompactString,
        version: CompactString,
        wanted: CompactString,
        cause: String,
    },
    /// It is the right kind in another version than the one the path names.
    #[error("the API version in the data ({given}) does not match the expected API version ({wanted})")]
    Version { given: String, wanted: String },
}

impl Found {
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
            wanted: wanted(shape),
            cause,
            shown: shown(body),
        }
    }

    pub(super) fn unhandled(shape: &Shape, found: &Found, cause: String) -> Self {
        let (kind, version) = (found.kind.clone(), found.version.clone());
        DecodeError::Unhandled {
            kind,
            version,
            wanted: wanted(shape),
            cause,
        }
    }

    /// What went wrong by itself, without what was wanted and given.
    pub fn cause(&self) -> String {
        match self {
            DecodeError::Unrecognized { cause, .. } | DecodeError::Unhandled { cause, .. } => cause.clone(),
            DecodeError::Version { .. } => self.to_string(),
        }
    }
}

fn wanted(shape: &Shape) -> CompactString {
    shape
        .gvk
        .as_ref()
        .map_or_else(|| shape.type_name().into(), |gvk| gvk.kind.clone())
}

/// The start of a body: as text if it looks like a JSON object, else in hexadecimal.
fn shown(body: &[u8]) -> String {
    let start = &body[..body.len().min(SHOWN_BYTES)];
    let more = if body.len() > SHOWN_BYTES { " ..." } else { "" };
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
