//! Objects written in the form a caller asked for: whole, metadata only, or a row of a table.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};
use setpoint_api::{ResourceVersion, Status, Stored};
use setpoint_kinds::columns::{UNKNOWN, ago};
use setpoint_kinds::{About, Kind};

use crate::member;
use crate::negotiate::{Form, Format};
use crate::request::options::Refused;
use crate::request::query::Query;

/// How each object of an answer is written.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub format: Format,
    pub form: Form,
    pub kind: Arc<dyn Kind>,
    pub include: Include,
    /// The time that ages are counted to.
    pub now: Timestamp,
}

/// How much of its object a table's row carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    Metadata,
    Object,
}

impl Include {
    /// Reads `includeObject`, which counts for tables only.
    pub(crate) fn parse(query: &Query<'_>, form: Form) -> Result<Self, Refused> {
        let asked = matches!(form, Form::Table(_)).then(|| query.find("includeObject"));
        match asked.flatten() {
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

impl Shown {
    /// Writes one object as it stands alone or in a watch. A table carries its columns only if `first`.
    pub(crate) fn write_object(&self, out: &mut Vec<u8>, object: &Stored, first: bool) {
        match self.form {
            Form::Plain => out.extend_from_slice(object.json()),
            Form::Metadata(version) | Form::MetadataList(version) => {
                self.write_metadata(out, object, version)
            }
            Form::Table(version) => {
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

    /// Writes one object as it stands in a list.
    pub(crate) fn write_item(&self, out: &mut Vec<u8>, object: &Stored) {
        match self.form {
            Form::Plain => {
                out.extend_from_slice(b"{");
                out.extend_from_slice(&object.body());
            }
            Form::Metadata(version) | Form::MetadataList(version) => {
                self.write_metadata(out, object, version)
            }
            Form::Table(version) => self.write_row(out, object, version),
        }
    }

    /// Writes everything of a list before its first item. The metadata is a JSON object.
    pub(crate) fn write_list_head(&self, out: &mut Vec<u8>, metadata: &str) {
        let about = self.kind.about();
        match self.form {
            Form::Plain => {
                let (kind, version) = (&about.list_kind, about.gvk.api_version());
                let head =
                    format!(r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{metadata},"items":["#);
                out.extend_from_slice(head.as_bytes());
            }
            Form::Metadata(version) | Form::MetadataList(version) => {
                let kind = "PartialObjectMetadataList";
                let head =
                    format!(r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{metadata},"items":["#);
                out.extend_from_slice(head.as_bytes());
            }
            Form::Table(version) => self.write_table_head(out, version, metadata, true),
        }
    }

    fn write_table_head(&self, out: &mut Vec<u8>, version: &str, metadata: &str, columns: bool) {
        let columns = columns.then(|| self.kind.about().columns.as_slice());
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
        match self.include {
            Include::None => out.extend_from_slice(b"null"),
            Include::Metadata => self.write_metadata(out, object, version),
            Include::Object => out.extend_from_slice(object.json()),
        }
        out.extend_from_slice(b"}");
    }

    fn write_metadata(&self, out: &mut Vec<u8>, object: &Stored, version: &str) {
        out.extend_from_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":""#);
        out.extend_from_slice(version.as_bytes());
        out.extend_from_slice(br#"","metadata":"#);
        out.extend_from_slice(&metadata_alone(object, self.kind.about()));
        out.extend_from_slice(b"}");
    }
}

/// The metadata of an object by itself. Annotations that stand for one of its fields are none of it.
pub(crate) fn metadata_alone<'a>(object: &'a Stored, about: &About) -> Cow<'a, [u8]> {
    let metadata = member::find(object.json(), "metadata").unwrap_or(b"{}");
    let inner = about.rules.inner_annotations;
    if inner.is_empty() {
        return Cow::Borrowed(metadata);
    }
    let mut metadata: Map<String, Value> = serde_json::from_slice(metadata).unwrap_or_default();
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|name, _| !inner.contains(&name.as_str()));
        if annotations.is_empty() {
            metadata.shift_remove("annotations");
        }
    }
    let json = serde_json::to_vec(&metadata);
    Cow::Owned(json.expect("what was JSON can be JSON again"))
}

/// The table of a scale, if that is what was asked for: it is no object of its kind, but people look at it like one.
pub(crate) fn of_scale(form: Form, json: &[u8], now: Timestamp) -> Option<Vec<u8>> {
    let Form::Table(version) = form else { return None };
    let scale: Value = serde_json::from_slice(json).ok()?;
    if scale["kind"] != "Scale" {
        return None;
    }
    let metadata = &scale["metadata"];
    let number = |part: &str| scale[part]["replicas"].as_i64().unwrap_or_default();
    let created: Option<Timestamp> = metadata["creationTimestamp"].as_str()?.parse().ok();
    let age = created.map_or_else(|| UNKNOWN.to_owned(), |created| ago(created, now));
    let column = |name: &str, kind: &str| json!({"name": name, "type": kind, "format": "", "description": "", "priority": 0});
    let table = json!({
        "kind": "Table", "apiVersion": version, "metadata": {"resourceVersion": metadata["resourceVersion"]},
        "columnDefinitions": [
            column("Name", "string"), column("Desired", "integer"), column("Available", "integer"), column("Age", "string"),
        ],
        "rows": [{
            "cells": [metadata["name"], number("spec"), number("status"), age],
            "object": {"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": metadata},
        }],
    });
    Some(table.to_string().into_bytes())
}

fn write_json(out: &mut Vec<u8>, value: &impl Serialize) {
    let json = serde_json::to_vec(value).expect("cells and columns are strings and numbers");
    out.extend_from_slice(&json);
}
