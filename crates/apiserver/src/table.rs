//! Representations of an object: in full, metadata only, or a row of a Table.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};
use setpoint_api::{ResourceVersion, Status, Stored};
use setpoint_codec::json::{self, scan};
use setpoint_schema::{Pack, Shape};
use setpoint_strategy::columns::{UNKNOWN, human_age};
use setpoint_strategy::{Kind, KindInfo};

use crate::negotiate::{Format, Representation};
use crate::request::options::StatusError;
use crate::request::query::Query;

/// How the objects of a response are rendered.
#[derive(Debug, Clone)]
pub(crate) struct RenderOptions {
    pub format: Format,
    pub representation: Representation,
    pub kind: Arc<dyn Kind>,
    pub include_object: IncludeObject,
    /// The time for the Age column.
    pub now: Timestamp,
}

/// How much of its object a table row contains (upstream: `IncludeObjectPolicy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    Metadata,
    Object,
}

impl IncludeObject {
    /// Parses `includeObject`, which only applies to tables.
    pub(crate) fn parse(query: &Query<'_>, representation: Representation) -> Result<Self, StatusError> {
        let requested =
            matches!(representation, Representation::Table(_)).then(|| query.find("includeObject"));
        match requested.flatten() {
            None | Some("" | "Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(Box::new(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: \
                 must be 'Metadata', 'Object', 'None', or empty"
            )))),
        }
    }
}

impl RenderOptions {
    /// Whether responses have all keys sorted: those with custom objects in full.
    pub(crate) fn has_sorted_keys(&self) -> bool {
        self.representation == Representation::Plain && self.kind.info().is_custom
    }

    /// Writes one object as it is in a get or a watch. A table has its `columnDefinitions` only if `first`.
    pub(crate) fn write_object(&self, out: &mut Vec<u8>, object: &Stored, first: bool) {
        match self.representation {
            Representation::Plain => out.extend_from_slice(object.json()),
            Representation::Metadata(version) | Representation::MetadataList(version) => {
                self.write_metadata(out, object, version)
            }
            Representation::Table(version) => {
                let metadata = match object.resource_version() {
                    ResourceVersion::ZERO => "{}".to_owned(),
                    version => format!(r#"{{"resourceVersion":"{version}"}}"#),
                };
                self.write_table_head(out, version, &metadata, first);
                self.write_row(out, object, version);
                out.extend_from_slice(b"]}");
            }
        }
    }

    /// Writes one object as it is in a list.
    pub(crate) fn write_item(&self, out: &mut Vec<u8>, object: &Stored) {
        match self.representation {
            Representation::Plain => {
                out.extend_from_slice(b"{");
                out.extend_from_slice(&object.body());
            }
            Representation::Metadata(version) | Representation::MetadataList(version) => {
                self.write_metadata(out, object, version)
            }
            Representation::Table(version) => self.write_row(out, object, version),
        }
    }

    /// Writes a list up to its first item. `metadata` is a JSON object.
    pub(crate) fn write_list_head(&self, out: &mut Vec<u8>, metadata: &str) {
        let info = self.kind.info();
        match self.representation {
            Representation::Plain if info.is_custom => {
                let head = format!(r#"{{"apiVersion":"{}","items":["#, info.gvk.api_version());
                out.extend_from_slice(head.as_bytes());
            }
            Representation::Plain => {
                let (kind, version) = (&info.list_kind, info.gvk.api_version());
                let head =
                    format!(r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{metadata},"items":["#);
                out.extend_from_slice(head.as_bytes());
            }
            Representation::Metadata(version) | Representation::MetadataList(version) => {
                let kind = "PartialObjectMetadataList";
                let head =
                    format!(r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{metadata},"items":["#);
                out.extend_from_slice(head.as_bytes());
            }
            Representation::Table(version) => self.write_table_head(out, version, metadata, true),
        }
    }

    /// Writes a list from behind its last item.
    pub(crate) fn write_list_end(&self, out: &mut Vec<u8>, metadata: &str) {
        let kind = &self.kind.info().list_kind;
        match self.has_sorted_keys() {
            true => {
                let end = format!(r#"],"kind":"{kind}","metadata":{metadata}}}"#);
                out.extend_from_slice(end.as_bytes());
            }
            false => out.extend_from_slice(b"]}"),
        }
        out.push(b'\n');
    }

    fn write_table_head(&self, out: &mut Vec<u8>, version: &str, metadata: &str, columns: bool) {
        let columns = columns.then(|| self.kind.info().columns.as_slice());
        let head = format!(
            r#"{{"kind":"Table","apiVersion":"{version}","metadata":{metadata},"columnDefinitions":"#
        );
        out.extend_from_slice(head.as_bytes());
        write_json(out, &columns);
        out.extend_from_slice(br#","rows":["#);
    }

    fn write_row(&self, out: &mut Vec<u8>, object: &Stored, version: &str) {
        out.extend_from_slice(br#"{"cells":"#);
        write_json(out, &self.kind.cells(object, self.now));
        out.extend_from_slice(br#","object":"#);
        match self.include_object {
            IncludeObject::None => out.extend_from_slice(b"null"),
            IncludeObject::Metadata => self.write_metadata(out, object, version),
            IncludeObject::Object => out.extend_from_slice(object.json()),
        }
        out.extend_from_slice(b"}");
    }

    fn write_metadata(&self, out: &mut Vec<u8>, object: &Stored, version: &str) {
        out.extend_from_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":""#);
        out.extend_from_slice(version.as_bytes());
        out.extend_from_slice(br#"","metadata":"#);
        out.extend_from_slice(&metadata_json(object, self.kind.info()));
        out.extend_from_slice(b"}");
    }
}

/// The metadata of an object as JSON, in the order of its type, and without the annotations that upstream's internal
/// type stores in fields.
pub(crate) fn metadata_json<'a>(object: &'a Stored, info: &KindInfo) -> Cow<'a, [u8]> {
    let metadata = scan::find_member(object.json(), "metadata").unwrap_or(b"{}");
    if info.is_custom {
        return Cow::Owned(in_declaration_order(metadata));
    }
    let inner = info.rules.upstream.internal_field_annotations;
    if inner.is_empty() {
        return Cow::Borrowed(metadata);
    }
    let mut metadata: Map<String, Value> = setpoint_api::json::from_slice(metadata).unwrap_or_default();
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|name, _| !inner.contains(&name.as_str()));
        if annotations.is_empty() {
            metadata.shift_remove("annotations");
        }
    }
    let json = serde_json::to_vec(&metadata);
    Cow::Owned(json.expect("parsed JSON can be serialized"))
}

/// Metadata with sorted keys, in the order of its type.
fn in_declaration_order(metadata: &[u8]) -> Vec<u8> {
    static METADATA: LazyLock<Option<&Shape>> = LazyLock::new(|| {
        let partial = Pack::builtin().shape_of("meta.k8s.io", "v1", "PartialObjectMetadata");
        partial.and_then(|shape| shape.at(&["metadata"]))
    });
    let mut ordered = Vec::with_capacity(metadata.len());
    match *METADATA {
        Some(shape) => json::write_in_order(shape, metadata, &mut ordered),
        None => ordered.extend_from_slice(metadata),
    }
    ordered
}

/// The table of a Scale, if a table is requested. A Scale is not an object of the resource's kind, so the kind's
/// columns do not apply.
pub(crate) fn scale_table(representation: Representation, json: &[u8], now: Timestamp) -> Option<Vec<u8>> {
    let Representation::Table(version) = representation else {
        return None;
    };
    let scale: Value = setpoint_api::json::from_slice(json).ok()?;
    if scale["kind"] != "Scale" {
        return None;
    }
    let metadata = &scale["metadata"];
    let replicas = |field: &str| scale[field]["replicas"].as_i64().unwrap_or_default();
    let created: Option<Timestamp> = metadata["creationTimestamp"].as_str()?.parse().ok();
    let age = created.map_or_else(|| UNKNOWN.to_owned(), |created| human_age(created, now));
    let column = |name: &str, kind: &str| json!({"name": name, "type": kind, "format": "", "description": "", "priority": 0});
    let table = json!({
        "kind": "Table", "apiVersion": version, "metadata": {"resourceVersion": metadata["resourceVersion"]},
        "columnDefinitions": [
            column("Name", "string"), column("Desired", "integer"), column("Available", "integer"), column("Age", "string"),
        ],
        "rows": [{
            "cells": [metadata["name"], replicas("spec"), replicas("status"), age],
            "object": {"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": metadata},
        }],
    });
    Some(table.to_string().into_bytes())
}

fn write_json(out: &mut Vec<u8>, value: &impl Serialize) {
    let json = serde_json::to_vec(value).expect("cells and columns are strings and numbers");
    out.extend_from_slice(&json);
}
