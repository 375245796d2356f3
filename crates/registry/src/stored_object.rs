//! Encoding and decoding of stored objects: a tree becomes canonical JSON with an empty resource version, which the
//! store fills in with the revision, and a store record becomes a [`Stored`].

use std::sync::Arc;

use bytes::Bytes;

use setpoint_api::object::Header;
use setpoint_api::{Key, ResourceVersion, Status, Stored};
use setpoint_codec::json::scan;
use setpoint_schema::{CanonicalJson, Tree};
use setpoint_store::Record;
use setpoint_strategy::{InvalidObject, Kind};

use crate::encoded_object::{self, EncodedObject};
use crate::served_resources::Resource;
use crate::{error, key};

/// The bytes before the resource version in canonical JSON.
const VERSION_FIELD: &[u8] = br#""resourceVersion":""#;

impl Resource {
    /// The object of a record: the attached or cached one if it has that version, else decoded from the bytes.
    pub(crate) fn find_or_decode(&self, key: &Key, record: &Record) -> Result<Arc<Stored>, InvalidObject> {
        if let Some(object) = encoded_object::attached_object(record) {
            return Ok(object);
        }
        let version = key::version(record.modified);
        let cached = self.cache.find(key);
        if let Some(cached) = cached.filter(|cached| cached.resource_version() == version) {
            return Ok(cached);
        }
        let json = record.value.clone();
        self.kind.stored(key.clone(), version, json).map(Arc::new)
    }

    /// The object of a record, for lists: one that cannot be decoded must not fail the list.
    pub(crate) fn decode_for_list(&self, record: &Record) -> Result<Arc<Stored>, Status> {
        let key = key::split(&record.key).and_then(|(_, text)| text.parse().ok());
        let shared = key.and_then(|key: Key| self.find_or_decode(&key, record).ok());
        let object = shared.or_else(|| self.decode_for_cache(record));
        object.ok_or_else(|| Status::internal("a key in the store is not an object key"))
    }

    /// The object of a record, for the caches: one that cannot be decoded keeps its key and its bytes.
    pub(crate) fn decode_for_cache(&self, record: &Record) -> Option<Arc<Stored>> {
        if let Some(object) = encoded_object::attached_object(record) {
            debug_assert_eq!(self.decode_again(record, &object), Ok(describe(&object)));
            return Some(object);
        }
        let (_, text) = key::split(&record.key)?;
        let key: Key = text.parse().ok()?;
        let version = key::version(record.modified);
        let object = self
            .kind
            .stored(key.clone(), version, record.value.clone())
            .unwrap_or_else(|problem| {
                tracing::error!(resource = %self.name, %key, %problem, "cannot decode stored object");
                let header = Header {
                    resource_version: version,
                    ..Header::new(key)
                };
                Stored::new(header, record.value.clone(), 1)
            });
        Some(Arc::new(object))
    }

    /// Encodes an object for the store.
    pub(crate) fn encode(&self, key: &Key, object: &Tree) -> Result<EncodedObject, Status> {
        Ok(EncodedObject {
            written: self.kind.write(object).map_err(error::undecodable)?,
            header: self.kind.header_of(key, object),
        })
    }

    /// Encodes a new object for the store, whose managed fields are not in the tree.
    pub(crate) fn encode_new(
        &self,
        key: &Key,
        object: &Tree,
        managed_fields: &[u8],
    ) -> Result<EncodedObject, Status> {
        let written = self.kind.write_new(object, managed_fields);
        Ok(EncodedObject {
            written: written.map_err(error::undecodable)?,
            header: self.kind.header_of(key, object),
        })
    }

    /// Decodes the bytes of a record and describes the result, to compare it with the attached object.
    fn decode_again(&self, record: &Record, object: &Stored) -> Result<String, InvalidObject> {
        let (key, version) = (object.key().clone(), object.resource_version());
        let read = self.kind.stored(key, version, record.value.clone());
        read.map(|read| describe(&read))
    }

    /// The object of encoded bytes that are not stored: with the given version, or without one.
    pub(crate) fn unstored_object(
        &self,
        key: Key,
        written: &CanonicalJson,
        version: Option<ResourceVersion>,
    ) -> Result<Arc<Stored>, InvalidObject> {
        let json = match version {
            Some(version) => stamped(written, version),
            None => unversioned(written),
        };
        let version = version.unwrap_or_default();
        self.kind.stored(key, version, Bytes::from(json)).map(Arc::new)
    }

    /// The same object with another resource version.
    pub(crate) fn with_version(
        &self,
        object: &Stored,
        version: ResourceVersion,
    ) -> Result<Arc<Stored>, InvalidObject> {
        with_version(&*self.kind, object, version)
    }
}

/// The header of an object and the length of its body.
fn describe(object: &Stored) -> String {
    format!("{:?}, {} bytes of body", object.header(), object.body().len())
}

/// The same object with another resource version: the last state in a DELETED event.
pub(crate) fn with_version(
    kind: &dyn Kind,
    object: &Stored,
    version: ResourceVersion,
) -> Result<Arc<Stored>, InvalidObject> {
    let json = Bytes::from(restamp(object.json(), version));
    kind.stored(object.key().clone(), version, json).map(Arc::new)
}

/// Whether stored and encoded bytes are equal apart from the version.
pub(crate) fn is_same(stored: &[u8], written: &CanonicalJson) -> bool {
    let Some(stamp) = written.resource_version_offset.map(|stamp| stamp as usize) else {
        return false;
    };
    let (head, tail) = written.bytes.split_at(stamp);
    let Some(rest) = stored.strip_prefix(head) else {
        return false;
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest[digits..] == *tail
}

/// The JSON of an encoded object with its version.
pub(crate) fn stamped(written: &CanonicalJson, version: ResourceVersion) -> Vec<u8> {
    let Some(stamp) = written.resource_version_offset.map(|stamp| stamp as usize) else {
        return written.bytes.clone();
    };
    let (head, tail) = written.bytes.split_at(stamp);
    [head, version.to_string().as_bytes(), tail].concat()
}

/// Removes the empty version.
fn unversioned(written: &CanonicalJson) -> Vec<u8> {
    match written.resource_version_offset {
        Some(offset) => without_version(&written.bytes, offset),
        None => written.bytes.clone(),
    }
}

/// JSON without the empty resource version whose digits would be at `offset`.
pub(crate) fn without_version(json: &[u8], offset: u32) -> Vec<u8> {
    let at = offset as usize;
    let (mut start, mut end) = (at - VERSION_FIELD.len(), at + 1);
    if json.get(end) == Some(&b',') {
        end += 1;
    } else if json.get(start.wrapping_sub(1)) == Some(&b',') {
        start -= 1;
    }
    [&json[..start], &json[end..]].concat()
}

/// JSON without the digits of its resource version, and their offset.
pub(crate) fn unstamped(json: &[u8]) -> (Vec<u8>, Option<u32>) {
    let Some(start) = version_offset(json) else {
        return (json.to_vec(), None);
    };
    let digits = json[start..].iter().take_while(|byte| byte.is_ascii_digit());
    let rest = start + digits.count();
    (
        [&json[..start], &json[rest..]].concat(),
        u32::try_from(start).ok(),
    )
}

fn restamp(json: &[u8], version: ResourceVersion) -> Vec<u8> {
    let Some(start) = version_offset(json) else {
        return json.to_vec();
    };
    let digits = json[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    [
        &json[..start],
        version.to_string().as_bytes(),
        &json[start + digits..],
    ]
    .concat()
}

/// The offset of the digits of the resource version. In the JSON of a built-in kind no field in front of it can hold a
/// quote, so the first match is it; in that of a custom kind, whose keys are sorted, labels are in front of it.
fn version_offset(json: &[u8]) -> Option<usize> {
    if json.starts_with(br#"{"kind":"#) {
        let at = json
            .windows(VERSION_FIELD.len())
            .position(|window| window == VERSION_FIELD);
        return at.map(|at| at + VERSION_FIELD.len());
    }
    let metadata = scan::find_member(json, "metadata")?;
    let version = scan::find_member(metadata, "resourceVersion")?;
    (version.as_ptr() as usize + 1).checked_sub(json.as_ptr() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(json: &str) -> CanonicalJson {
        let stamp = json.find(r#""resourceVersion":""#).unwrap() + VERSION_FIELD.len();
        CanonicalJson {
            bytes: json.as_bytes().to_vec(),
            resource_version_offset: Some(u32::try_from(stamp).unwrap()),
            body_offset: 1,
            uncompressed_bytes: None,
        }
    }

    #[test]
    fn bytes_are_the_same_whatever_their_version() {
        let new = written(r#"{"metadata":{"name":"a","resourceVersion":""},"data":1}"#);
        let same = br#"{"metadata":{"name":"a","resourceVersion":"1234"},"data":1}"#;
        let other = br#"{"metadata":{"name":"a","resourceVersion":"1234"},"data":2}"#;
        assert!(is_same(same, &new));
        assert!(!is_same(other, &new));
    }

    #[test]
    fn a_label_is_not_taken_for_the_version() {
        let json = br#"{"apiVersion":"e/v1","data":{"resourceVersion":"1"},"metadata":{"labels":{"resourceVersion":"2"},"resourceVersion":"3"}}"#;
        assert_eq!(
            restamp(json, ResourceVersion(12)),
            br#"{"apiVersion":"e/v1","data":{"resourceVersion":"1"},"metadata":{"labels":{"resourceVersion":"2"},"resourceVersion":"12"}}"#
        );
    }

    #[test]
    fn a_version_is_put_in_taken_out_and_replaced() {
        let new = written(r#"{"metadata":{"name":"a","resourceVersion":"","uid":"u"}}"#);
        let stamped = stamped(&new, ResourceVersion(7));
        assert_eq!(
            stamped,
            br#"{"metadata":{"name":"a","resourceVersion":"7","uid":"u"}}"#
        );
        assert_eq!(
            restamp(&stamped, ResourceVersion(12)),
            br#"{"metadata":{"name":"a","resourceVersion":"12","uid":"u"}}"#
        );
        assert_eq!(
            unstamped(&stamped),
            (new.bytes.clone(), new.resource_version_offset)
        );
        assert_eq!(unversioned(&new), br#"{"metadata":{"name":"a","uid":"u"}}"#);
        let last = written(r#"{"metadata":{"name":"a","resourceVersion":""}}"#);
        assert_eq!(unversioned(&last), br#"{"metadata":{"name":"a"}}"#);
    }
}
