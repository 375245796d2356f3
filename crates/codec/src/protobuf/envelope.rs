//! The envelope: a magic number of four bytes, then the object's type and its message.
//!
//! All four fields are written, empty or not, as `apimachinery.pkg.runtime.Unknown`: type 1, message 2, encoding 3,
//! content type 4. The last two are always empty for what the API serves.

use std::borrow::Cow;

use compact_str::CompactString;

use super::error::Error;
use super::reader::{DELIMITED, Reader, field_length, push_field_header};
use crate::json;

/// The first bytes of every envelope.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// The fields after the message: encoding and content type, both empty.
pub(super) const TRAILER: [u8; 4] = [3 << 3 | DELIMITED, 0, 4 << 3 | DELIMITED, 0];

/// The `apiVersion` and `kind` of an object. In protobuf only the envelope has them, never the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    pub api_version: CompactString,
    pub kind: CompactString,
}

/// An opened envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    pub type_meta: TypeMeta,
    pub message: &'a [u8],
}

impl TypeMeta {
    pub fn new(api_version: &str, kind: &str) -> Self {
        TypeMeta {
            api_version: api_version.into(),
            kind: kind.into(),
        }
    }

    fn length(&self) -> usize {
        field_length(self.api_version.len()) + field_length(self.kind.len())
    }
}

/// Opens an envelope, without decoding the message.
pub fn open(bytes: &[u8]) -> Result<Envelope<'_>, Error> {
    let mut envelope = Envelope {
        type_meta: TypeMeta::default(),
        message: &[],
    };
    let mut reader = Reader::new(body(bytes)?);
    while let Some(tag) = reader.next()? {
        match (tag.number, tag.wire) {
            (1, DELIMITED) => envelope.type_meta = type_meta(reader.delimited()?)?,
            (2, DELIMITED) => envelope.message = reader.delimited()?,
            _ => reader.skip(tag.wire)?,
        }
    }
    Ok(envelope)
}

/// Wraps a message in an envelope.
pub fn seal(type_meta: &TypeMeta, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(length(type_meta, message.len()));
    seal_into(type_meta, message, &mut out);
    out
}

/// Appends an envelope with a message in it.
pub fn seal_into(type_meta: &TypeMeta, message: &[u8], out: &mut Vec<u8>) {
    head(type_meta, message.len(), out);
    out.extend_from_slice(message);
    out.extend_from_slice(&TRAILER);
}

/// The length of an envelope around a message of this length.
pub fn length(type_meta: &TypeMeta, message: usize) -> usize {
    MAGIC.len() + field_length(type_meta.length()) + field_length(message) + TRAILER.len()
}

/// Appends everything before the message.
pub(super) fn head(type_meta: &TypeMeta, message: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(MAGIC);
    push_field_header(1, type_meta.length(), out);
    for (number, text) in [(1, &type_meta.api_version), (2, &type_meta.kind)] {
        push_field_header(number, text.len(), out);
        out.extend_from_slice(text.as_bytes());
    }
    push_field_header(2, message, out);
}

/// The bytes after the magic number.
fn body(bytes: &[u8]) -> Result<&[u8], Error> {
    match bytes.strip_prefix(MAGIC) {
        _ if bytes.is_empty() => Err(Error::Empty),
        None => Err(Error::Magic),
        Some([]) => Err(Error::NoBody),
        Some(body) => Ok(body),
    }
}

fn type_meta(bytes: &[u8]) -> Result<TypeMeta, Error> {
    let mut type_meta = TypeMeta::default();
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.next()? {
        match (tag.number, tag.wire) {
            (1, DELIMITED) => type_meta.api_version = text(reader.delimited()?).into(),
            (2, DELIMITED) => type_meta.kind = text(reader.delimited()?).into(),
            _ => reader.skip(tag.wire)?,
        }
    }
    Ok(type_meta)
}

/// A string. Each byte that is not valid UTF-8 becomes U+FFFD, as in JSON.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(json::replace_invalid_utf8(bytes)),
    }
}
