//! Between documents and objects: what comes in becomes a draft, what goes out becomes bytes with a place for the
//! revision, and what is stored becomes a [`Stored`].

use std::sync::Arc;

use bytes::Bytes;

use setpoint_api::object::Header;
use setpoint_api::{Key, ResourceVersion, Status, Stored};
use setpoint_kinds::{Kind, Problem};
use setpoint_schema::{Tree, Written};
use setpoint_store::Record;

use crate::key;
use crate::ready::{self, Ready};
use crate::table::Resource;

/// What stands before the resource version in canonical JSON. Nothing in front of it can hold a quote.
const VERSION_FIELD: &[u8] = br#""resourceVersion":""#;

impl Resource {
    /// The object of a record: the cached one if it is that version.
    pub(crate) fn shared(&self, key: &Key, record: &Record) -> Result<Arc<Stored>, Problem> {
        if let Some(object) = ready::object(record) {
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

    /// The object of a record, for lists: one that cannot be read stops no list.
    pub(crate) fn shared_or_unread(&self, record: &Record) -> Result<Arc<Stored>, Status> {
        let key = key::split(&record.key).and_then(|(_, text)| text.parse().ok());
        let shared = key.and_then(|key: Key| self.shared(&key, record).ok());
        let object = shared.or_else(|| self.read(record));
        object.ok_or_else(|| Status::internal("a stored key is no key of an object"))
    }

    /// The object of a record, for the caches: one that cannot be read keeps its key and its bytes.
    pub(crate) fn read(&self, record: &Record) -> Option<Arc<Stored>> {
        if let Some(object) = ready::object(record) {
            debug_assert_eq!(self.read_back(record, &object), Ok(told(&object)));
            return Some(object);
        }
        let (_, text) = key::split(&record.key)?;
        let key: Key = text.parse().ok()?;
        let version = key::version(record.modified);
        let object = self
            .kind
            .stored(key.clone(), version, record.value.clone())
            .unwrap_or_else(|problem| {
                tracing::error!(resource = %self.name, %key, %problem, "stored object cannot be read");
                let header = Header {
                    resource_version: version,
                    ..Header::new(key)
                };
                Stored::new(header, record.value.clone(), 1)
            });
        Some(Arc::new(object))
    }

    /// The object as it is to be stored.
    pub(crate) fn write(&self, key: &Key, object: &Tree) -> Ready {
        Ready {
            written: self.kind.write(object),
            header: self.kind.header_of(key, object),
        }
    }

    /// What the bytes of a record say of its object.
    fn read_back(&self, record: &Record, object: &Stored) -> Result<String, Problem> {
        let (key, version) = (object.key().clone(), object.resource_version());
        let read = self.kind.stored(key, version, record.value.clone());
        read.map(|read| told(&read))
    }

    /// The object of bytes that are not stored: with the version given, or with none.
    pub(crate) fn unstored(
        &self,
        key: Key,
        written: &Written,
        version: Option<ResourceVersion>,
    ) -> Result<Arc<Stored>, Problem> {
        let json = match version {
            Some(version) => stamped(written, version),
            None => unversioned(&written.bytes),
        };
        let version = version.unwrap_or_default();
        self.kind.stored(key, version, Bytes::from(json)).map(Arc::new)
    }

    /// The same object under another version.
    pub(crate) fn restamped(
        &self,
        object: &Stored,
        version: ResourceVersion,
    ) -> Result<Arc<Stored>, Problem> {
        restamped(&*self.kind, object, version)
    }
}

/// All that is known of an object besides its bytes.
fn told(object: &Stored) -> String {
    format!("{:?}, {} bytes of body", object.header(), object.body().len())
}

/// The same object under another version: what a watcher is told of one that is gone.
pub(crate) fn restamped(
    kind: &dyn Kind,
    object: &Stored,
    version: ResourceVersion,
) -> Result<Arc<Stored>, Problem> {
    let json = Bytes::from(restamp(object.json(), version));
    kind.stored(object.key().clone(), version, json).map(Arc::new)
}

/// Whether stored bytes are what would be written now, the version aside.
pub(crate) fn is_same(stored: &[u8], written: &Written) -> bool {
    let Some(stamp) = written.stamp.map(|stamp| stamp as usize) else {
        return false;
    };
    let (head, tail) = written.bytes.split_at(stamp);
    let Some(rest) = stored.strip_prefix(head) else {
        return false;
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest[digits..] == *tail
}

fn stamped(written: &Written, version: ResourceVersion) -> Vec<u8> {
    let Some(stamp) = written.stamp.map(|stamp| stamp as usize) else {
        return written.bytes.clone();
    };
    let (head, tail) = written.bytes.split_at(stamp);
    [head, version.to_string().as_bytes(), tail].concat()
}

/// Takes the empty version out.
fn unversioned(json: &[u8]) -> Vec<u8> {
    let Some(at) = find(json, VERSION_FIELD) else {
        return json.to_vec();
    };
    let mut end = at + VERSION_FIELD.len() + 1;
    let mut start = at;
    if json.get(end) == Some(&b',') {
        end += 1;
    } else if json.get(start.wrapping_sub(1)) == Some(&b',') {
        start -= 1;
    }
    [&json[..start], &json[end..]].concat()
}

fn restamp(json: &[u8], version: ResourceVersion) -> Vec<u8> {
    let Some(at) = find(json, VERSION_FIELD) else {
        return json.to_vec();
    };
    let start = at + VERSION_FIELD.len();
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

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(json: &str) -> Written {
        let stamp = json.find(r#""resourceVersion":""#).unwrap() + VERSION_FIELD.len();
        Written {
            bytes: json.as_bytes().to_vec(),
            stamp: Some(u32::try_from(stamp).unwrap()),
            body_at: 1,
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
        assert_eq!(unversioned(&new.bytes), br#"{"metadata":{"name":"a","uid":"u"}}"#);
        let last = written(r#"{"metadata":{"name":"a","resourceVersion":""}}"#);
        assert_eq!(unversioned(&last.bytes), br#"{"metadata":{"name":"a"}}"#);
    }
}
