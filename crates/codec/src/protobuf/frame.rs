//! Protobuf watch frames: a length of four bytes, then a `WatchEvent` with fields `type = 1` and `object = 2`, whose raw
//! bytes are an envelope.
//!
//! The frame itself has no magic number.

use super::envelope::{self, TypeMeta, text};
use super::error::Error;
use super::reader::{DELIMITED, Reader, field_length, push_field_header};

/// The length prefix of a frame.
pub const PREFIX_BYTES: usize = 4;

/// Appends one event. The object's message is copied once, straight into the buffer.
pub fn write(event: &str, type_meta: &TypeMeta, message: &[u8], out: &mut Vec<u8>) {
    let lengths = Lengths::of(event, type_meta, message);
    let prefix = u32::try_from(lengths.event).expect("an object is far below four gigabytes");
    out.reserve(PREFIX_BYTES + lengths.event);
    out.extend_from_slice(&prefix.to_be_bytes());
    push_field_header(1, event.len(), out);
    out.extend_from_slice(event.as_bytes());
    push_field_header(2, lengths.raw_extension, out);
    push_field_header(1, lengths.envelope, out);
    envelope::seal_into(type_meta, message, out);
}

/// The length of a frame, for callers that reserve a buffer for several at once.
pub fn length(event: &str, type_meta: &TypeMeta, message: &[u8]) -> usize {
    PREFIX_BYTES + Lengths::of(event, type_meta, message).event
}

/// The first frame of a buffer, without its prefix, and the rest; `None` until the frame is complete.
pub fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (prefix, rest) = bytes.split_first_chunk::<PREFIX_BYTES>()?;
    rest.split_at_checked(u32::from_be_bytes(*prefix) as usize)
}

/// The type of an event and the envelope of its object. The frame is passed without its prefix.
pub fn open(frame: &[u8]) -> Result<(String, &[u8]), Error> {
    let (mut event, mut object) = (String::new(), &[][..]);
    let mut reader = Reader::new(frame);
    while let Some(tag) = reader.next()? {
        match (tag.number, tag.wire) {
            (1, DELIMITED) => event = text(reader.delimited()?).into_owned(),
            (2, DELIMITED) => object = raw(reader.delimited()?)?,
            _ => reader.skip(tag.wire)?,
        }
    }
    Ok((event, object))
}

fn raw(extension: &[u8]) -> Result<&[u8], Error> {
    let mut raw = &[][..];
    let mut reader = Reader::new(extension);
    while let Some(tag) = reader.next()? {
        match (tag.number, tag.wire) {
            (1, DELIMITED) => raw = reader.delimited()?,
            _ => reader.skip(tag.wire)?,
        }
    }
    Ok(raw)
}

/// The lengths of the nested messages of a frame, innermost first.
struct Lengths {
    envelope: usize,
    raw_extension: usize,
    event: usize,
}

impl Lengths {
    fn of(event: &str, type_meta: &TypeMeta, message: &[u8]) -> Self {
        let envelope = envelope::length(type_meta, message.len());
        let raw_extension = field_length(envelope);
        Lengths {
            envelope,
            raw_extension,
            event: field_length(event.len()) + field_length(raw_extension),
        }
    }
}
