//! [`Stored`]: an immutable API object as JSON bytes plus a small [`Header`].
//!
//! Get, list and watch send the bytes as they are. The header has what generic code needs without decoding: key,
//! labels, selectable fields, owners. In-process readers that need more decode a *view*: any type that deserializes
//! from the JSON, decoded on first use and then shared by all readers.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use compact_str::CompactString;
use parking_lot::RwLock;
use serde::de::DeserializeOwned;

use crate::json;
use crate::key::Key;
use crate::version::ResourceVersion;

/// One immutable version of an object.
pub struct Stored {
    header: Header,
    json: Bytes,
    /// Offset of the first byte after the type fields: `{` and `json[body_offset..]` is the object without them.
    body_offset: u32,
    /// The object's protobuf message, encoded on first use.
    protobuf: OnceLock<Bytes>,
    views: RwLock<Vec<(TypeId, Arc<dyn Any + Send + Sync>)>>,
}

/// The metadata that generic code reads without decoding the object.
#[derive(Debug, Clone)]
pub struct Header {
    pub key: Key,
    pub uid: CompactString,
    pub resource_version: ResourceVersion,
    pub generation: i64,
    /// Sorted by name.
    pub labels: Box<[(CompactString, CompactString)]>,
    /// The selectable fields besides name and namespace, sorted by label.
    pub fields: Box<[(CompactString, CompactString)]>,
    pub owner_references: Box<[OwnerReference]>,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    pub has_finalizers: bool,
}

/// An owner reference (`metadata.ownerReferences`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerReference {
    pub uid: CompactString,
    pub kind: CompactString,
    pub name: CompactString,
    pub api_version: CompactString,
    pub controller: bool,
    pub block_owner_deletion: bool,
}

// === impl Header ===

impl Header {
    /// A header with only the key set.
    pub fn new(key: Key) -> Self {
        Self {
            key,
            uid: CompactString::default(),
            resource_version: ResourceVersion::ZERO,
            generation: 0,
            labels: Box::default(),
            fields: Box::default(),
            owner_references: Box::default(),
            deleting: false,
            has_finalizers: false,
        }
    }
}

// === impl Stored ===

impl Stored {
    /// The header must have been read from these same bytes.
    pub fn new(header: Header, json: Bytes, body_at: u32) -> Self {
        Self {
            header,
            json,
            body_offset: body_at,
            protobuf: OnceLock::new(),
            views: RwLock::default(),
        }
    }

    pub fn key(&self) -> &Key {
        &self.header.key
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    pub fn uid(&self) -> &str {
        &self.header.uid
    }

    pub fn resource_version(&self) -> ResourceVersion {
        self.header.resource_version
    }

    /// The whole object as JSON.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// The object's JSON after `kind` and `apiVersion`, without its opening brace: the body of a list item.
    pub fn body(&self) -> Bytes {
        self.json.slice(self.body_offset as usize..)
    }

    /// The object as a protobuf message, without its envelope: encoded from the JSON at most once, and then shared.
    pub fn protobuf(&self, make: impl FnOnce(&Bytes) -> Bytes) -> Bytes {
        self.protobuf.get_or_init(|| make(&self.json)).clone()
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        let labels = &self.header.labels;
        let found = labels.binary_search_by(|(own, _)| own.as_str().cmp(name)).ok()?;
        Some(&labels[found].1)
    }

    /// The value of a selectable field; `None` if the kind has no such field.
    pub fn field(&self, label: &str) -> Option<&str> {
        match label {
            "metadata.name" => Some(self.key().name()),
            "metadata.namespace" => Some(self.key().namespace()),
            _ => self
                .header
                .fields
                .iter()
                .find(|(own, _)| *own == label)
                .map(|(_, value)| value.as_str()),
        }
    }

    /// The controlling owner (`controller: true`), if there is one.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.header.owner_references.iter().find(|owner| owner.controller)
    }

    /// Reads the object as a `T`, decoding it at most once for all readers.
    ///
    /// A `T` may be the whole typed object or a small struct with the few fields the reader needs. Prefer the small
    /// struct: every view stays in memory as long as the object does.
    pub fn view<T: DeserializeOwned + Send + Sync + 'static>(&self) -> Result<Arc<T>, serde_json::Error> {
        if let Some(view) = self.find_view::<T>() {
            return Ok(view);
        }
        let view = Arc::new(self.decode::<T>()?);
        let mut views = self.views.write();
        views.push((TypeId::of::<T>(), view.clone()));
        views.shrink_to_fit();
        Ok(view)
    }

    /// Decodes the object as a `T` without caching the result.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        json::from_slice(&self.json)
    }

    fn find_view<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let views = self.views.read();
        let (_, view) = views.iter().find(|(id, _)| *id == TypeId::of::<T>())?;
        view.clone().downcast().ok()
    }
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key(), self.resource_version())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct NameView {
        metadata: MetadataView,
    }

    #[derive(Debug, Deserialize)]
    struct MetadataView {
        name: String,
    }

    fn object(json: &'static str) -> Stored {
        let mut header = Header::new(Key::new("default", "web"));
        header.labels = Box::new([("app".into(), "web".into()), ("tier".into(), "front".into())]);
        header.fields = Box::new([("spec.nodeName".into(), "n1".into())]);
        Stored::new(header, Bytes::from_static(json.as_bytes()), 1)
    }

    /// IN8, IN17: readers share one decoded view.
    #[test]
    fn all_readers_of_a_view_share_it() {
        let object = object(r#"{"metadata":{"name":"web"}}"#);
        let first = object.view::<NameView>().unwrap();
        let second = object.view::<NameView>().unwrap();
        assert_eq!(first.metadata.name, "web");
        assert!(Arc::ptr_eq(&first, &second));
    }

    #[test]
    fn an_object_that_cannot_be_decoded_as_a_view_is_an_error_each_time() {
        let object = object(r#"{"metadata":{"name":7}}"#);
        assert!(object.view::<NameView>().is_err());
        assert!(object.view::<NameView>().is_err());
        assert!(object.view::<serde_json::Value>().is_ok());
    }

    #[test]
    fn the_protobuf_message_is_encoded_once() {
        let object = object("{}");
        assert_eq!(object.protobuf(|json| json.clone()), "{}");
        assert_eq!(object.protobuf(|_| unreachable!("the message is cached")), "{}");
    }

    #[test]
    fn labels_and_fields_are_found_by_name() {
        let object = object("{}");
        assert_eq!(object.label("tier"), Some("front"));
        assert_eq!(object.label("absent"), None);
        assert_eq!(object.field("metadata.name"), Some("web"));
        assert_eq!(object.field("metadata.namespace"), Some("default"));
        assert_eq!(object.field("spec.nodeName"), Some("n1"));
        assert_eq!(object.field("spec.absent"), None);
    }

    #[test]
    fn the_body_is_the_object_without_its_type() {
        let header = Header::new(Key::new("", "a"));
        let json = r#"{"kind":"A","apiVersion":"v1","metadata":{}}"#;
        let at = u32::try_from(json.find("\"metadata").unwrap()).unwrap();
        let object = Stored::new(header, Bytes::from_static(json.as_bytes()), at);
        assert_eq!(object.body(), r#""metadata":{}}"#);
    }
}
