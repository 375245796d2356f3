//! [`ValueCodec`]: translation between the store's map and the keys and values that an engine stores.
//!
//! The map holds values with the revision stamped into them. A remote engine may be shared with other programs, and then
//! holds what they expect: keys under a prefix, values in a storage encoding without the revision. The
//! codec is the only component that knows both. It is pure: it does no I/O, and the same stored bytes decode to the same value on every
//! server.

use std::fmt::Debug;

use bytes::{BufMut, Bytes, BytesMut};

use crate::{Attachment, Error, Put, Revision, mmap_value};

/// Codec of keys and values. Called by several threads at once.
pub trait ValueCodec: Debug + Send + Sync {
    /// The prefix of every key that the engine stores for this map. The engine lists and watches exactly these keys.
    fn stored_prefix(&self) -> Bytes;

    /// The engine's key of a key of the map. Compares and deletes use it; it is the key that [`ValueCodec::encode`]
    /// returns for a put of the same key.
    fn stored_key(&self, key: &[u8]) -> Result<Bytes, Error>;

    /// The key of the map of one of the engine's keys. `None` for a key under the prefix that is no part of the map,
    /// such as another program's: the engine skips it.
    fn map_key(&self, stored_key: &[u8]) -> Option<Bytes>;

    /// Encodes the value of `put`, without the revision, which is not known yet. An error rejects the
    /// transaction.
    fn encode(&self, put: &Put) -> Result<StoredValue, Error>;

    /// Decodes a stored value that was written at `revision`. Not called for keys of which [`ValueCodec::map_key`] is
    /// `None`, nor for what this process wrote, whose record has the value of the put itself. An error is logged and
    /// counted, the key is reported by [`crate::Store::undecodable_keys`], and the map keeps the last value that could be
    /// decoded; all other keys go on.
    fn decode(&self, stored_key: &[u8], value: Bytes, revision: Revision) -> Result<DecodedValue, Error>;
}

/// A key and value as the engine stores them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredValue {
    /// The engine's key.
    pub key: Bytes,
    /// The encoded value.
    pub value: Bytes,
}

/// A key and value as the map holds them.
#[derive(Clone, Debug)]
pub struct DecodedValue {
    /// The key of the map.
    pub key: Bytes,
    /// The value, with the revision stamped into it.
    pub value: Bytes,
    /// Decoded form of the value, if the codec has built one; see [`Attachment`].
    pub attachment: Attachment,
}

/// The default codec: stores keys and values as they are, under a prefix. Behind each value it stores the offset of the
/// stamp, so that another server inserts the revision at the same position.
#[derive(Clone, Debug, Default)]
pub struct PlainCodec {
    /// Put before each key.
    pub prefix: Bytes,
}

/// The trailer of a value without a stamp.
const NO_STAMP: u32 = u32::MAX;

impl ValueCodec for PlainCodec {
    fn stored_prefix(&self) -> Bytes {
        self.prefix.clone()
    }

    fn stored_key(&self, key: &[u8]) -> Result<Bytes, Error> {
        Ok(mmap_value::concat(&[&self.prefix, key]))
    }

    fn map_key(&self, stored_key: &[u8]) -> Option<Bytes> {
        stored_key.strip_prefix(&*self.prefix).map(Bytes::copy_from_slice)
    }

    fn encode(&self, put: &Put) -> Result<StoredValue, Error> {
        let mut value = BytesMut::with_capacity(put.value.len() + 4);
        value.put_slice(&put.value);
        value.put_u32(put.stamp.unwrap_or(NO_STAMP));
        Ok(StoredValue {
            key: self.stored_key(&put.key)?,
            value: value.freeze(),
        })
    }

    fn decode(&self, stored_key: &[u8], value: Bytes, revision: Revision) -> Result<DecodedValue, Error> {
        let undecodable = |reason: &str| Error::Undecodable {
            key: Bytes::copy_from_slice(stored_key),
            reason: reason.to_owned(),
        };
        let key = self
            .map_key(stored_key)
            .ok_or_else(|| undecodable("the key is outside the prefix"))?;
        let (written, trailer) = value
            .split_last_chunk()
            .ok_or_else(|| undecodable("the value has no trailer"))?;
        let value = match u32::from_be_bytes(*trailer) {
            NO_STAMP => value.slice(..written.len()),
            offset if offset as usize <= written.len() => {
                let (before, after) = written.split_at(offset as usize);
                mmap_value::concat(&[before, revision.to_string().as_bytes(), after])
            }
            _ => return Err(undecodable("the stamp is outside the value")),
        };
        Ok(DecodedValue {
            key,
            value,
            attachment: Attachment::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, stamp: Option<u32>, expected: &str) {
        let codec = PlainCodec {
            prefix: Bytes::from_static(b"/p/"),
        };
        let put = Put {
            key: Bytes::from_static(b"a"),
            value: Bytes::copy_from_slice(value.as_bytes()),
            stamp,
            ..Put::default()
        };
        let stored = codec.encode(&put).unwrap();
        assert_eq!(stored.key, "/p/a");
        let decoded = codec
            .decode(&stored.key, stored.value, Revision::new(12))
            .unwrap();
        assert_eq!(
            (decoded.key, decoded.value),
            ("a".into(), expected.to_owned().into())
        );
    }

    #[test]
    fn a_value_is_decoded_with_its_revision() {
        check("v=;", Some(2), "v=12;");
        check("v=", Some(2), "v=12");
        check("plain", None, "plain");
        check("", None, "");
    }

    #[test]
    fn a_value_that_the_codec_did_not_write_is_an_error() {
        let codec = PlainCodec::default();
        for value in [&b"abc"[..], b"a\0\0\0\x05"] {
            let decoded = codec.decode(b"a", Bytes::copy_from_slice(value), Revision::new(1));
            assert!(matches!(decoded, Err(Error::Undecodable { .. })));
        }
    }
}
