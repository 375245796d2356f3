//! Answers in protobuf: envelopes, lists and frames around messages that are made once for each object.
//!
//! A message does not say what it is, so the kind and version stand beside it until it is sealed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use setpoint_api::{List, Stored};
use setpoint_codec::protobuf::{self, TypeMeta, envelope, list};
use setpoint_schema::Pack;

use crate::body::{Body, FRAME_BYTES, Pieces};
use crate::negotiate::Form;
use crate::respond::list_metadata;
use crate::table::{Shown, metadata_alone};

/// A list on its way out.
#[derive(Debug)]
struct Messages {
    /// What is written already of the next frame.
    begun: Vec<u8>,
    items: std::vec::IntoIter<Bytes>,
    ended: bool,
}

// === impl Messages ===

impl Messages {
    fn next_frame(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        let mut out = std::mem::take(&mut self.begun);
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

impl Pieces for Messages {
    fn poll_piece(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        Poll::Ready(self.next_frame().map(Ok))
    }

    fn length(&self) -> Option<usize> {
        Some(self.begun.len() + self.items.as_slice().iter().map(Bytes::len).sum::<usize>())
    }
}

/// What the objects of an answer are, in the form that was asked for.
pub(crate) fn type_meta(shown: &Shown) -> TypeMeta {
    let gvk = &shown.kind.about().gvk;
    match shown.form {
        Form::Metadata(version) | Form::MetadataList(version) => {
            TypeMeta::new(version, "PartialObjectMetadata")
        }
        Form::Plain | Form::Table(_) => TypeMeta::new(&gvk.api_version(), &gvk.kind),
    }
}

/// The message of an object, in the form that was asked for.
pub(crate) fn message(shown: &Shown, object: &Stored) -> Bytes {
    let alone = matches!(shown.form, Form::Metadata(_) | Form::MetadataList(_));
    if alone && !shown.kind.about().rules.inner_annotations.is_empty() {
        return metadata_message(shown, object);
    }
    let whole = object.message(|json| {
        let message = protobuf::encode_json(shown.kind.shape(), json);
        message
            .expect("what is stored is JSON that this server wrote")
            .into()
    });
    match shown.form {
        Form::Metadata(_) | Form::MetadataList(_) => {
            list::partial(&whole).map_or_else(Bytes::new, |metadata| whole.slice_ref(metadata))
        }
        Form::Plain | Form::Table(_) => whole,
    }
}

/// The metadata where some of the annotations are none of it.
fn metadata_message(shown: &Shown, object: &Stored) -> Bytes {
    let metadata = metadata_alone(object, shown.kind.about());
    let json = [br#"{"metadata":"#, &*metadata, b"}"].concat();
    let message = protobuf::encode_json(shown.kind.shape(), &json);
    let whole = Bytes::from(message.expect("what is stored is JSON that this server wrote"));
    list::partial(&whole).map_or_else(Bytes::new, |metadata| whole.slice_ref(metadata))
}

/// An object in its envelope.
pub(crate) fn object(shown: &Shown, object: &Stored) -> Vec<u8> {
    envelope::seal(&type_meta(shown), &message(shown, object))
}

/// Whether a list of this form has its metadata first and its items second, as [`list()`] writes it. The older list of
/// metadata has them the other way round.
pub(crate) fn has_list(form: Form) -> bool {
    form != Form::MetadataList("meta.k8s.io/v1beta1")
}

/// A list in its envelope. Its length stands at its beginning, so all messages are made now; they are copied into
/// frames as the caller reads.
pub(crate) fn list(shown: &Shown, list: &List) -> Body {
    let items: Vec<Bytes> = list.items.iter().map(|item| message(shown, item)).collect();
    let length = items.iter().map(|item| list::item_length(item.len())).sum();
    let metadata = protobuf::encode_json(list::metadata_shape(), list_metadata(list).as_bytes());
    let metadata = metadata.expect("the metadata of a list is written as JSON right here");
    let mut begun = Vec::with_capacity(FRAME_BYTES.min(length + 512));
    list::begin(&list_type_meta(shown), &metadata, length, &mut begun);
    let fits = begun.len() + length < FRAME_BYTES;
    let mut messages = Messages {
        begun,
        items: items.into_iter(),
        ended: false,
    };
    match fits {
        true => messages.next_frame().map_or(Body::Empty, Body::Whole),
        false => Body::Pieces(Box::pin(messages)),
    }
}

/// A JSON document of a kind that has a protobuf form, in its envelope.
pub(crate) fn document(json: &[u8]) -> Option<Vec<u8>> {
    typed(json).map(|(type_meta, message)| envelope::seal(&type_meta, &message))
}

/// What a JSON document is, and its message; `None` if its kind has no protobuf form.
pub(crate) fn typed(json: &[u8]) -> Option<(TypeMeta, Vec<u8>)> {
    let tree = setpoint_codec::json::parse(json).ok()?;
    let (api_version, kind) = (
        tree.str_at(&["apiVersion"]).unwrap_or_default(),
        tree.str_at(&["kind"])?,
    );
    let (group, version) = match api_version {
        // The oldest documents do not say their version.
        "" => ("", "v1"),
        written => written.split_once('/').unwrap_or(("", written)),
    };
    let shape = Pack::builtin().shape_of(group, version, kind)?;
    let type_meta = TypeMeta::new(api_version, kind);
    protobuf::has_form(shape).then(|| (type_meta, protobuf::encode(shape, &tree)))
}

fn list_type_meta(shown: &Shown) -> TypeMeta {
    let about = shown.kind.about();
    match shown.form {
        Form::Metadata(version) | Form::MetadataList(version) => {
            TypeMeta::new(version, "PartialObjectMetadataList")
        }
        Form::Plain | Form::Table(_) => TypeMeta::new(&about.gvk.api_version(), &about.list_kind),
    }
}

#[cfg(test)]
mod tests;
