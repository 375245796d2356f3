//! Responses in protobuf: envelopes, lists and frames around messages that are encoded once per object.
//!
//! A message does not contain its kind and version; they are passed beside it until it is sealed in an envelope.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use setpoint_api::{List, Stored};
use setpoint_codec::protobuf::{self, TypeMeta, envelope, list};
use setpoint_schema::Pack;

use crate::body::{Body, ByteStream, FRAME_BYTES};
use crate::negotiate::Representation;
use crate::respond::list_metadata;
use crate::table::{RenderOptions, metadata_json};

/// A list in protobuf, as a body of several frames.
#[derive(Debug)]
struct ListStream {
    /// The start of the next frame.
    buffer: Vec<u8>,
    items: std::vec::IntoIter<Bytes>,
    ended: bool,
}

// === impl ListStream ===

impl ListStream {
    fn next_frame(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        let mut out = std::mem::take(&mut self.buffer);
        while out.len() < FRAME_BYTES {
            let Some(item) = self.items.next() else {
                list::end(&mut out);
                self.ended = true;
                break;
            };
            list::push(&item, &mut out);
        }
        Some(out.into())
    }
}

impl ByteStream for ListStream {
    fn poll_chunk(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        Poll::Ready(self.next_frame().map(Ok))
    }

    fn length(&self) -> Option<usize> {
        Some(self.buffer.len() + self.items.as_slice().iter().map(Bytes::len).sum::<usize>())
    }
}

/// Kind and version of the objects in the requested representation.
pub(crate) fn type_meta(render: &RenderOptions) -> TypeMeta {
    let gvk = &render.kind.info().gvk;
    match render.representation {
        Representation::Metadata(version) | Representation::MetadataList(version) => {
            TypeMeta::new(version, "PartialObjectMetadata")
        }
        Representation::Plain | Representation::Table(_) => TypeMeta::new(&gvk.api_version(), &gvk.kind),
    }
}

/// The message of an object in the requested representation.
pub(crate) fn message(render: &RenderOptions, object: &Stored) -> Bytes {
    let metadata_only = matches!(
        render.representation,
        Representation::Metadata(_) | Representation::MetadataList(_)
    );
    if metadata_only
        && !render
            .kind
            .info()
            .rules
            .upstream
            .internal_field_annotations
            .is_empty()
    {
        return metadata_message(render, object);
    }
    let whole = object.protobuf(|json| {
        let message = protobuf::encode_json(render.kind.shape(), json);
        message
            .expect("a stored object is JSON that this server wrote")
            .into()
    });
    match render.representation {
        Representation::Metadata(_) | Representation::MetadataList(_) => {
            list::partial_metadata(&whole).map_or_else(Bytes::new, |metadata| whole.slice_ref(metadata))
        }
        Representation::Plain | Representation::Table(_) => whole,
    }
}

/// The metadata message of a kind that hides some annotations.
fn metadata_message(render: &RenderOptions, object: &Stored) -> Bytes {
    let metadata = metadata_json(object, render.kind.info());
    let json = [br#"{"metadata":"#, &*metadata, b"}"].concat();
    let message = protobuf::encode_json(render.kind.shape(), &json);
    let whole = Bytes::from(message.expect("a stored object is JSON that this server wrote"));
    list::partial_metadata(&whole).map_or_else(Bytes::new, |metadata| whole.slice_ref(metadata))
}

/// An object in its envelope.
pub(crate) fn object(render: &RenderOptions, object: &Stored) -> Vec<u8> {
    envelope::seal(&type_meta(render), &message(render, object))
}

/// Whether a list in this representation has its metadata in field 1 and its items in field 2, as [`list()`] writes
/// them. The v1beta1 PartialObjectMetadataList has them the other way round.
pub(crate) fn has_standard_list(representation: Representation) -> bool {
    representation != Representation::MetadataList("meta.k8s.io/v1beta1")
}

/// A list in its envelope. The encoding starts with its length, so all messages are encoded now; they are copied into
/// frames as the client reads.
pub(crate) fn list(render: &RenderOptions, list: &List) -> Body {
    let items: Vec<Bytes> = list.items.iter().map(|item| message(render, item)).collect();
    let length = items.iter().map(|item| list::item_length(item.len())).sum();
    let metadata = protobuf::encode_json(list::metadata_shape(), list_metadata(list).as_bytes());
    let metadata = metadata.expect("the metadata of a list is written as JSON right here");
    let mut buffer = Vec::with_capacity(FRAME_BYTES.min(length + 512));
    list::begin(&list_type_meta(render), &metadata, length, &mut buffer);
    let fits = buffer.len() + length < FRAME_BYTES;
    let mut messages = ListStream {
        buffer,
        items: items.into_iter(),
        ended: false,
    };
    match fits {
        true => messages.next_frame().map_or(Body::Empty, Body::Whole),
        false => Body::Stream(Box::pin(messages)),
    }
}

/// The envelope of a JSON object whose kind has a protobuf encoding.
pub(crate) fn seal_json(json: &[u8]) -> Option<Vec<u8>> {
    encode_typed(json).map(|(type_meta, message)| envelope::seal(&type_meta, &message))
}

/// Type and message of a JSON object; `None` if its kind has no protobuf encoding.
pub(crate) fn encode_typed(json: &[u8]) -> Option<(TypeMeta, Vec<u8>)> {
    let tree = setpoint_codec::json::parse(json).ok()?;
    let (api_version, kind) = (
        tree.str_at(&["apiVersion"]).unwrap_or_default(),
        tree.str_at(&["kind"])?,
    );
    let (group, version) = match api_version {
        // APIVersions and the core group's APIResourceList have no `apiVersion`.
        "" => ("", "v1"),
        api_version => api_version.split_once('/').unwrap_or(("", api_version)),
    };
    let shape = Pack::builtin().shape_of(group, version, kind)?;
    let type_meta = TypeMeta::new(api_version, kind);
    protobuf::has_protobuf_form(shape).then(|| (type_meta, protobuf::encode(shape, &tree)))
}

fn list_type_meta(render: &RenderOptions) -> TypeMeta {
    let info = render.kind.info();
    match render.representation {
        Representation::Metadata(version) | Representation::MetadataList(version) => {
            TypeMeta::new(version, "PartialObjectMetadataList")
        }
        Representation::Plain | Representation::Table(_) => {
            TypeMeta::new(&info.gvk.api_version(), &info.list_kind)
        }
    }
}

#[cfg(test)]
mod tests;
