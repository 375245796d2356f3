//! Kubernetes' protobuf encoding, which typed clients use by default.
//!
//! Both directions are driven by the [`Shape`]: [`decode`] fills a tree from a message, [`encode`] writes a message from
//! a tree, byte for byte as kube-apiserver does. There are no generated types. Objects on the wire are wrapped in an
//! [`envelope`] that names their kind; items of a [`list`] are not, so that a list is assembled from messages that were
//! encoded once per object. A watch sends [`frame`]s. Clients that have no shapes use [`builtin`].
//!
//! Formats: `staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/doc.go` in Kubernetes, and
//! <https://protobuf.dev/programming-guides/encoding/>.
//!
//! Malformed or malicious input is an [`Error`], never a panic: lengths are checked against the remaining bytes, depth is
//! limited, and running time is linear in the input.
//!
//! Start reading at [`decode`], then [`encode`].

pub mod builtin;
mod decode;
mod duration;
mod encode;
pub mod envelope;
mod error;
pub mod frame;
pub mod list;
pub mod range_allocation;
mod reader;
mod reverse_buffer;

use setpoint_schema::Shape;

pub use decode::{decode, decode_message};
pub use encode::{encode, encode_json, encode_object};
pub use envelope::{Envelope, TypeMeta};
pub use error::Error;

/// Whether a kind has a protobuf form. Custom kinds have none.
pub fn has_protobuf_form(shape: &Shape) -> bool {
    shape.proto_name.is_some()
}

#[cfg(test)]
mod tests;
