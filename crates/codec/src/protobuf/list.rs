//! Lists: `metadata = 1`, `items = 2`. Items are bare messages, so they are copied as each object's own encoding.
//!
//! The same holds for partial metadata: the metadata of any object is field 1 of its message, and that field alone is
//! the message of a `PartialObjectMetadata`.

use super::envelope::{self, FOOT, TypeMeta};
use super::reader::{DELIMITED, Reader, field_length, push_head};

const METADATA: u8 = 1;
const ITEMS: u8 = 2;

/// A list in its envelope. `type_meta` is the list's own; `metadata` is the message of its `ListMeta`.
pub fn write(type_meta: &TypeMeta, metadata: &[u8], items: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let message = length(metadata, items);
    let mut out = Vec::with_capacity(envelope::length(type_meta, message));
    envelope::head(type_meta, message, &mut out);
    push_head(METADATA, metadata.len(), &mut out);
    out.extend_from_slice(metadata);
    for item in items {
        let item = item.as_ref();
        push_head(ITEMS, item.len(), &mut out);
        out.extend_from_slice(item);
    }
    out.extend_from_slice(&FOOT);
    out
}

/// The message of an object's `PartialObjectMetadata`, cut out of the object's own message. Field 1 of every kind that
/// stands alone is its metadata, and fields are written by rising number, so it is the first one. `None` for a message
/// that begins otherwise.
pub fn partial(message: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(message);
    let tag = reader.next().ok()??;
    let metadata = reader.delimited().ok()?;
    let is_metadata = tag.number == u32::from(METADATA) && tag.wire == DELIMITED;
    is_metadata.then(|| &message[..field_length(metadata.len())])
}

fn length(metadata: &[u8], items: &[impl AsRef<[u8]>]) -> usize {
    let items = items.iter().map(|item| field_length(item.as_ref().len()));
    field_length(metadata.len()) + items.sum::<usize>()
}
