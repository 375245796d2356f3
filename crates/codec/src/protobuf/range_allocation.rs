//! The stored form of a `RangeAllocation`, which Kubernetes does not serve: the numbers of a range that are allocated, as a
//! bitmap (upstream: `RangeAllocation` in `k8s.io/api/core/v1`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use setpoint_schema::Tree;

use super::envelope::{self, TypeMeta};
use super::error::Error;
use super::reader::{DELIMITED, Reader, VARINT, push_field_header};
use crate::json;

/// Metadata without a value. Kubernetes writes the empty strings, the generation and the empty creation time.
const METADATA: [u8; 16] = [
    1 << 3 | DELIMITED,
    0,
    2 << 3 | DELIMITED,
    0,
    3 << 3 | DELIMITED,
    0,
    4 << 3 | DELIMITED,
    0,
    5 << 3 | DELIMITED,
    0,
    6 << 3 | DELIMITED,
    0,
    7 << 3 | VARINT,
    0,
    8 << 3 | DELIMITED,
    0,
];

/// Encodes a range and its bitmap.
pub fn encode(range: &str, data: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(METADATA.len() + range.len() + data.len() + 12);
    for (number, bytes) in [(1, &METADATA[..]), (2, range.as_bytes()), (3, data)] {
        push_field_header(number, bytes.len(), &mut message);
        message.extend_from_slice(bytes);
    }
    envelope::seal(&TypeMeta::new("v1", "RangeAllocation"), &message)
}

/// The range and the bitmap of a stored value, which is protobuf, or JSON if Kubernetes is configured so.
pub fn decode(bytes: &[u8]) -> Result<(String, Vec<u8>), Error> {
    if bytes.first() == Some(&b'{') {
        return decode_json(bytes);
    }
    let envelope = envelope::open(bytes)?;
    let (mut range, mut data) = (String::new(), Vec::new());
    let mut reader = Reader::new(envelope.message);
    while let Some(tag) = reader.next()? {
        match (tag.number, tag.wire) {
            (2, DELIMITED) => range = envelope::text(reader.delimited()?).into_owned(),
            (3, DELIMITED) => data = reader.delimited()?.to_vec(),
            _ => reader.skip(tag.wire)?,
        }
    }
    Ok((range, data))
}

fn decode_json(bytes: &[u8]) -> Result<(String, Vec<u8>), Error> {
    let object = json::parse(bytes)?;
    let text = |field| object.get(field).and_then(Tree::as_str).unwrap_or_default();
    let data = STANDARD.decode(text("data")).map_err(|_| Error::End)?;
    Ok((text("range").to_owned(), data))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// kube-apiserver 1.37 writes the same bytes.
    #[test]
    fn a_range_is_stored_as_kubernetes_stores_it() {
        let expected: &[u8] = b"k8s\0\n\x15\n\x02v1\x12\x0fRangeAllocation\x12\x23\
            \n\x10\n\0\x12\0\x1a\0\"\0*\x002\x008\0B\0\
            \x12\x0b30000-32767\
            \x1a\x02\x01\x80\
            \x1a\0\"\0";
        assert_eq!(encode("30000-32767", &[1, 0x80]), expected);
        assert_eq!(decode(expected), Ok(("30000-32767".to_owned(), vec![1, 0x80])));
    }

    #[test]
    fn json_is_read_too() {
        let json = br#"{"kind":"RangeAllocation","apiVersion":"v1","range":"1-16","data":"AYA="}"#;
        assert_eq!(decode(json), Ok(("1-16".to_owned(), vec![1, 0x80])));
    }

    #[test]
    fn a_value_that_is_cut_off_is_an_error() {
        let whole = encode("1-16", &[7]);
        decode(&whole[..whole.len() - 5]).unwrap_err();
        decode(b"").unwrap_err();
    }
}
