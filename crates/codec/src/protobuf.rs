//! Kubernetes' protobuf: what typed clients send and ask for by default.
//!
//! The [`Shape`] is the only table: [`decode`] fills a tree from a message by it, [`encode`] writes a message from a
//! tree by it, byte for byte as the reference server does. No type of its own stands between the two. Objects on the
//! wire stand in an [`envelope`] that names their kind; items of a [`list`] do not, so that a list is put together from
//! messages that were encoded once per object. A watch sends [`frame`]s. A client that knows no shapes has [`document`].
//!
//! Formats: `staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/doc.go` in Kubernetes, and
//! <https://protobuf.dev/programming-guides/encoding/>.
//!
//! Bytes that were not written by a peer in good faith are an [`Error`], never a panic: lengths are checked against
//! what is left, depth is limited, and no step takes longer than its input allows.
//!
//! Start reading at [`decode`], then [`encode`].

mod decode;
pub mod document;
mod duration;
mod encode;
pub mod envelope;
mod error;
pub mod frame;
pub mod list;
mod reader;
mod tail;

use setpoint_schema::Shape;

pub use decode::{decode, decode_message};
pub use encode::{encode, encode_json, encode_object};
pub use envelope::{Envelope, TypeMeta};
pub use error::Error;

/// Whether a kind can be written as protobuf at all. Custom kinds cannot.
pub fn has_form(shape: &Shape) -> bool {
    shape.proto.is_some()
}

#[cfg(test)]
mod tests;
