//! Errors of protobuf decoding. Messages about the wire format are kube-apiserver's.

use compact_str::CompactString;

use crate::json;

/// Bytes that cannot be decoded as protobuf.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    #[error("empty data")]
    Empty,
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Magic,
    #[error("empty body")]
    NoBody,
    /// The input ends inside a value.
    #[error("unexpected EOF")]
    End,
    #[error("proto: integer overflow")]
    Overflow,
    #[error("proto: negative length found during unmarshaling")]
    Length,
    #[error("proto: illegal tag {number} (wire type {wire})")]
    Tag { number: u64, wire: u8 },
    #[error("proto: illegal wireType {0}")]
    Wire(u8),
    #[error("proto: wrong wireType = {wire} for field {field}")]
    FieldWire { wire: u8, field: CompactString },
    /// The end of a group that never began.
    #[error("proto: wiretype end group for non-group")]
    Group,
    #[error("exceeded max depth")]
    Depth,
    #[error("time {seconds} seconds from 1970 has no year of four digits")]
    Time { seconds: i64 },
    /// A number that JSON cannot represent: an infinity or NaN.
    #[error("json: unsupported value: {0}")]
    Number(f64),
    /// An invalid quantity, with kube-apiserver's message.
    #[error("{0}")]
    Quantity(&'static str),
    /// Raw JSON inside the message is not valid JSON.
    #[error(transparent)]
    Json(#[from] json::Error),
    /// The kind has a JSON form only.
    #[error("kind {0} has no protobuf form")]
    NoProtobufForm(CompactString),
}
