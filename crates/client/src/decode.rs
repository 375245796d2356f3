//! Decoding of response bodies, JSON or protobuf, into stored objects. Only the metadata is decoded, for the header.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use compact_str::CompactString;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use setpoint_api::object::OwnerReference;
use setpoint_api::{Bookmark, Gvk, Header, Key, List, ResourceVersion, Stored};
use setpoint_codec::from_tree;
use setpoint_codec::protobuf::builtin::{BuiltinList, BuiltinObject};
use setpoint_codec::{protobuf, typed};

/// Why a response body cannot be decoded.
#[allow(missing_docs, reason = "the messages document them")]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot decode the object: {0}")]
    Decode(#[from] serde_json::Error),
    #[error("cannot decode the message: {0}")]
    Message(#[from] protobuf::Error),
    #[error("cannot decode the message: {0}")]
    Tree(#[from] typed::Error),
    #[error("resource version {0:?} is not a number")]
    Version(String),
}

#[derive(Deserialize)]
struct Head {
    /// Present if the object has its type fields.
    #[serde(default)]
    kind: Option<IgnoredAny>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: CompactString,
    namespace: CompactString,
    uid: CompactString,
    resource_version: CompactString,
    generation: i64,
    labels: Option<Labels>,
    owner_references: Option<Vec<RawOwnerReference>>,
    deletion_timestamp: Option<IgnoredAny>,
    finalizers: Option<Vec<IgnoredAny>>,
}

/// The object of a BOOKMARK event.
#[derive(Deserialize)]
struct BookmarkObject {
    #[serde(default)]
    metadata: BookmarkMeta,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct BookmarkMeta {
    resource_version: CompactString,
    annotations: Option<BTreeMap<CompactString, CompactString>>,
}

/// Labels sorted by name, as in the header.
struct Labels(Vec<(CompactString, CompactString)>);

struct LabelsVisitor;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawOwnerReference {
    api_version: CompactString,
    kind: CompactString,
    name: CompactString,
    uid: CompactString,
    #[serde(default)]
    controller: Option<bool>,
    #[serde(default)]
    block_owner_deletion: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawList<'a> {
    #[serde(default)]
    kind: CompactString,
    #[serde(default)]
    api_version: CompactString,
    #[serde(default)]
    metadata: RawListMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawListMeta {
    resource_version: CompactString,
    #[serde(rename = "continue")]
    continue_token: String,
    remaining_item_count: Option<u64>,
}

// === impl Labels ===

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(LabelsVisitor)
    }
}

impl<'de> Visitor<'de> for LabelsVisitor {
    type Value = Labels;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
        let mut labels: Vec<(CompactString, CompactString)> = Vec::new();
        while let Some(label) = map.next_entry()? {
            labels.push(label);
        }
        // Servers write them sorted. Of duplicates the last counts.
        if !labels.is_sorted_by(|a, b| a.0 < b.0) {
            labels = labels
                .into_iter()
                .collect::<BTreeMap<_, _>>()
                .into_iter()
                .collect();
        }
        Ok(Labels(labels))
    }
}

/// The annotation of the bookmark that ends the initial state of a streaming list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// One object with its type fields.
pub fn object(json: Bytes) -> Result<Arc<Stored>, Error> {
    let head: Head = setpoint_api::json::from_slice(&json)?;
    to_stored(head, json)
}

/// A list of objects. Items of built-in types come without their type fields; they get those of the list.
pub fn list(json: &[u8]) -> Result<List, Error> {
    let raw: RawList<'_> = serde_json::from_slice(json)?;
    let kind = raw.kind.strip_suffix("List").unwrap_or_default();
    let (group, version) = raw.api_version.split_once('/').unwrap_or(("", &raw.api_version));
    let gvk = Gvk::new(group, version, kind);
    let items = raw.items.unwrap_or_default();
    let items = items
        .into_iter()
        .map(|item| list_item(item.get(), &gvk))
        .collect::<Result<_, _>>()?;
    to_list(items, raw.metadata)
}

/// One protobuf object.
pub fn protobuf_object(document: &BuiltinObject) -> Result<Arc<Stored>, Error> {
    to_stored(from_tree(&document.tree)?, document.to_json().into())
}

/// A protobuf list.
pub fn protobuf_list(bytes: &[u8]) -> Result<List, Error> {
    let documents = BuiltinList::open(bytes)?;
    let items = documents
        .items()
        .map(|document| protobuf_object(&document?))
        .collect::<Result<_, _>>()?;
    to_list(items, from_tree(&documents.metadata)?)
}

fn to_list(items: Vec<Arc<Stored>>, metadata: RawListMeta) -> Result<List, Error> {
    Ok(List {
        items,
        resource_version: resource_version(&metadata.resource_version)?,
        continue_token: Some(metadata.continue_token).filter(|token| !token.is_empty()),
        remaining_item_count: metadata.remaining_item_count,
    })
}

/// The resource version of a bookmark, and whether it ends the initial events.
pub(crate) fn bookmark(json: &[u8]) -> Result<Bookmark, Error> {
    to_bookmark(setpoint_api::json::from_slice(json)?)
}

/// A protobuf bookmark.
pub(crate) fn protobuf_bookmark(document: &BuiltinObject) -> Result<Bookmark, Error> {
    to_bookmark(from_tree(&document.tree)?)
}

fn to_bookmark(BookmarkObject { metadata }: BookmarkObject) -> Result<Bookmark, Error> {
    let annotations = metadata.annotations.unwrap_or_default();
    let end = annotations
        .get(INITIAL_EVENTS_END)
        .is_some_and(|value| value == "true");
    Ok(Bookmark {
        resource_version: resource_version(&metadata.resource_version)?,
        initial_events_end: end,
    })
}

fn list_item(json: &str, gvk: &Gvk) -> Result<Arc<Stored>, Error> {
    let head: Head = setpoint_api::json::from_slice(json.as_bytes())?;
    let body = json.trim_start_matches(|c: char| c == '{' || c.is_ascii_whitespace());
    // The bytes are copied in any case: a slice would keep the whole list in memory as long as one item is used.
    let bytes = match head.kind {
        Some(_) => json.to_owned(),
        None => format!(
            r#"{{"kind":"{}","apiVersion":"{}",{body}"#,
            gvk.kind,
            gvk.api_version()
        ),
    };
    to_stored(head, bytes.into())
}

/// A stored object of these bytes, whose head has been decoded.
fn to_stored(head: Head, json: Bytes) -> Result<Arc<Stored>, Error> {
    let (header, body_offset) = (header(head.metadata)?, body_offset(&json));
    Ok(Arc::new(Stored::new(header, json, body_offset)))
}

fn header(metadata: Metadata) -> Result<Header, Error> {
    let mut header = Header::new(Key::new(&metadata.namespace, &metadata.name));
    header.resource_version = resource_version(&metadata.resource_version)?;
    header.uid = metadata.uid;
    header.generation = metadata.generation;
    header.labels = metadata.labels.map(|labels| labels.0.into()).unwrap_or_default();
    let owners = metadata.owner_references.unwrap_or_default();
    header.owner_references = owners.into_iter().map(owner).collect();
    header.deleting = metadata.deletion_timestamp.is_some();
    header.has_finalizers = metadata
        .finalizers
        .is_some_and(|finalizers| !finalizers.is_empty());
    Ok(header)
}

fn owner(reference: RawOwnerReference) -> OwnerReference {
    OwnerReference {
        uid: reference.uid,
        kind: reference.kind,
        name: reference.name,
        api_version: reference.api_version,
        controller: reference.controller.unwrap_or(false),
        block_owner_deletion: reference.block_owner_deletion.unwrap_or(false),
    }
}

fn resource_version(text: &str) -> Result<ResourceVersion, Error> {
    match text {
        "" => Ok(ResourceVersion::ZERO),
        text => text.parse().map_err(|_| Error::Version(text.to_owned())),
    }
}

/// The offset behind `kind` and `apiVersion`, if these come first, as servers write them; else that of the first field.
fn body_offset(json: &[u8]) -> u32 {
    let at = json
        .windows(11)
        .take(256)
        .position(|window| window == b"\"metadata\":");
    let head = &json[..at.unwrap_or(0)];
    let is_type_meta = head.iter().filter(|byte| **byte == b':').count() == 2
        && head.windows(7).any(|window| window == b"\"kind\":")
        && head.windows(13).any(|window| window == b"\"apiVersion\":");
    match at {
        Some(at) if is_type_meta => u32::try_from(at).expect("the search covers 256 bytes"),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_read_from_the_metadata() {
        let json = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1","namespace":"a","uid":"u","resourceVersion":"7",
            "generation":2,"labels":{"b":"2","a":"1"},"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["x/y"],
            "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"w","controller":true}]},"spec":{}}"#;
        let object = object(Bytes::from_static(json.as_bytes())).unwrap();
        assert_eq!(format!("{object:?}"), "a/web-1@7");
        let header = object.header();
        assert_eq!((header.uid.as_str(), header.generation), ("u", 2));
        assert_eq!((object.label("a"), object.label("b")), (Some("1"), Some("2")));
        assert_eq!(object.controller().unwrap().uid, "w");
        assert!(header.deleting && header.has_finalizers);
        assert!(object.body().starts_with(b"\"metadata\":{\"name\""));
    }

    #[track_caller]
    fn check_labels(labels: &str, expected: &[(&str, &str)]) {
        let json = format!(r#"{{"metadata":{{"name":"x","labels":{labels}}}}}"#);
        let object = object(json.into()).unwrap();
        let labels = object.header().labels.iter();
        let labels: Vec<_> = labels
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(labels, expected);
    }

    #[test]
    fn labels_are_in_order_however_they_come() {
        check_labels(r#"{"a":"1","b":"2"}"#, &[("a", "1"), ("b", "2")]);
        check_labels(
            r#"{"b":"2","c":"3","a":"1"}"#,
            &[("a", "1"), ("b", "2"), ("c", "3")],
        );
        check_labels(r#"{"a":"1","a":"2"}"#, &[("a", "2")]);
        check_labels("{}", &[]);
        check_labels("null", &[]);
    }

    #[track_caller]
    fn check_body(json: &'static str, expected: &str) {
        let object = object(Bytes::from_static(json.as_bytes())).unwrap();
        assert_eq!(object.body(), expected.as_bytes());
    }

    #[test]
    fn the_body_starts_behind_the_type_fields_where_these_come_first() {
        check_body(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#,
            r#""metadata":{}}"#,
        );
        check_body(
            r#"{"metadata":{},"kind":"Pod"}"#,
            r#""metadata":{},"kind":"Pod"}"#,
        );
        check_body(
            r#"{"data":{"a":"b"},"metadata":{}}"#,
            r#""data":{"a":"b"},"metadata":{}}"#,
        );
    }

    #[test]
    fn items_of_a_list_get_its_type() {
        let json = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":"abc","remainingItemCount":3},
            "items":[{"metadata":{"name":"x","namespace":"a","resourceVersion":"8"}},
                     {"kind":"Pod","apiVersion":"v1","metadata":{"name":"y"}}]}"#;
        let list = list(json.as_bytes()).unwrap();
        assert_eq!(list.resource_version, ResourceVersion(9));
        assert_eq!(
            (list.continue_token.as_deref(), list.remaining_item_count),
            (Some("abc"), Some(3))
        );
        assert!(
            list.items[0]
                .json()
                .starts_with(br#"{"kind":"Pod","apiVersion":"v1","metadata":"#)
        );
        let decoded: k8s_openapi::api::core::v1::Pod = list.items[0].decode().unwrap();
        assert_eq!(decoded.metadata.name.as_deref(), Some("x"));
        assert_eq!(list.items[1].key().as_str(), "y");
    }

    #[test]
    fn null_items_are_an_empty_list() {
        let json = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":null}"#;
        assert!(list(json.as_bytes()).unwrap().items.is_empty());
    }

    #[test]
    fn a_resource_version_must_be_a_number() {
        let json = Bytes::from_static(br#"{"metadata":{"name":"x","resourceVersion":"abc"}}"#);
        assert_eq!(
            object(json).unwrap_err().to_string(),
            r#"resource version "abc" is not a number"#
        );
    }
}
