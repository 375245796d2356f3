//! Request and response objects for the audit log: as JSON, whatever their encoding on the wire.

use std::sync::Arc;

use setpoint_api::call::{Body, Encoding};
use setpoint_api::{List, Payload, Response};
use setpoint_auth::audit::Record;
use setpoint_codec::{json, protobuf, yaml};
use setpoint_schema::Tree;
use setpoint_strategy::Kind;

use crate::respond::list_metadata;

/// The request body as JSON; `None` if it cannot be decoded.
pub(crate) fn request_json(kind: &dyn Kind, payload: &Payload) -> Option<Vec<u8>> {
    let tree = match payload.encoding {
        Encoding::Json => return Some(payload.bytes.to_vec()),
        Encoding::Yaml => yaml::parse(&payload.bytes).ok()?,
        Encoding::Protobuf => from_message(kind, &payload.bytes)?,
    };
    Some(json::write(&tree))
}

fn from_message(kind: &dyn Kind, bytes: &[u8]) -> Option<Tree> {
    let (type_meta, mut tree) = protobuf::decode(bytes, kind.shape()).ok()?;
    tree.set(&["kind"], type_meta.kind);
    tree.set(&["apiVersion"], type_meta.api_version);
    Some(tree)
}

/// Sets the annotations of admission, the response's object name, and its body if the audit level includes responses.
pub(crate) fn record_response(record: &mut Record, kind: &Arc<dyn Kind>, response: &Response) {
    record.add_annotations(&response.audit_annotations);
    if let Body::Object(object) = &response.body {
        record.set_object_name(object.key().name());
    }
    if !record.wants_response() {
        return;
    }
    match &response.body {
        Body::Object(object) => record.set_response_object(object.json()),
        Body::Json(json) => record.set_response_object(json),
        Body::List(list) => record.set_response_object(&list_json(kind, list)),
        Body::Status(status) => {
            let json = serde_json::to_vec(status);
            record.set_response_object(&json.expect("a status is strings and numbers"));
        }
        Body::Watch(_) => {}
    }
}

fn list_json(kind: &Arc<dyn Kind>, list: &List) -> Vec<u8> {
    let info = kind.info();
    let (kind, version, metadata) = (&info.list_kind, info.gvk.api_version(), list_metadata(list));
    let head = format!(r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{metadata},"items":["#);
    let mut json = head.into_bytes();
    for (at, item) in list.items.iter().enumerate() {
        if at > 0 {
            json.push(b',');
        }
        json.extend_from_slice(item.json());
    }
    json.extend_from_slice(b"]}");
    json
}
