//! Lists: `metadata = 1`, `items = 2`. Items are bare messages, so each object's cached encoding is copied.
//!
//! The same applies to partial metadata: the metadata of any object is field 1 of its message, and that field alone is
//! the message of a `PartialObjectMetadata`.

use setpoint_schema::{Pack, Shape};

use super::envelope::{self, TRAILER, TypeMeta};
use super::reader::{DELIMITED, Reader, field_length, push_field_header};

const METADATA: u8 = 1;
const ITEMS: u8 = 2;

/// The shape of `ListMeta`.
pub fn metadata_shape() -> &'static Shape {
    Pack::builtin()
        .shape_of("meta.k8s.io", "v1", "PartialObjectMetadataList")
        .and_then(|list| list.at(&["metadata"]))
        .expect("the pack has lists of metadata")
}

/// A list in its envelope. `type_meta` is the list's; `metadata` is the message of its `ListMeta`.
pub fn write(type_meta: &TypeMeta, metadata: &[u8], items: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let lengths = items.iter().map(|item| item_length(item.as_ref().len())).sum();
    let message = field_length(metadata.len()) + lengths;
    let mut out = Vec::with_capacity(envelope::length(type_meta, message));
    begin(type_meta, metadata, lengths, &mut out);
    for item in items {
        push(item.as_ref(), &mut out);
    }
    end(&mut out);
    out
}

/// Appends everything before the items, for callers that stream a list. `items` is the sum of [`item_length`] of all
/// items; exactly so many bytes must follow before [`end`].
pub fn begin(type_meta: &TypeMeta, metadata: &[u8], items: usize, out: &mut Vec<u8>) {
    envelope::head(type_meta, field_length(metadata.len()) + items, out);
    push_field_header(METADATA, metadata.len(), out);
    out.extend_from_slice(metadata);
}

/// The bytes an item takes in a list, by the length of its message.
pub fn item_length(message: usize) -> usize {
    field_length(message)
}

/// Appends one item.
pub fn push(message: &[u8], out: &mut Vec<u8>) {
    push_field_header(ITEMS, message.len(), out);
    out.extend_from_slice(message);
}

/// Appends the bytes after the last item.
pub fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(&TRAILER);
}

/// The message of an object's `PartialObjectMetadata`, as a slice of the object's message. Field 1 of every top-level
/// kind is its metadata, and fields are sorted by number, so it is the first one. `None` for a message that begins
/// otherwise.
pub fn partial_metadata(message: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(message);
    let tag = reader.next().ok()??;
    let metadata = reader.delimited().ok()?;
    let is_metadata = tag.number == u32::from(METADATA) && tag.wire == DELIMITED;
    is_metadata.then(|| &message[..field_length(metadata.len())])
}
