//! Documents as the audit log shows them: in JSON, whatever they came or went as.

use std::sync::Arc;

use setpoint_api::call::{Body, Encoding};
use setpoint_api::{List, Payload, Response};
use setpoint_auth::audit::Record;
use setpoint_codec::{json, protobuf, yaml};
use setpoint_kinds::Kind;
use setpoint_schema::Tree;

use crate::respond::list_metadata;

/// A document that came in; nothing if it cannot be read.
pub(crate) fn document(kind: &dyn Kind, payload: &Payload) -> Option<Vec<u8>> {
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

/// Tells of what goes out: the name that a new object got, and where it is wanted the whole of it.
pub(crate) fn answer(record: &mut Record, kind: &Arc<dyn Kind>, response: &Response) {
    if let Body::Object(object) = &response.body {
        record.named(object.key().name());
    }
    if !record.wants_response() {
        return;
    }
    match &response.body {
        Body::Object(object) => record.response_object(object.json()),
        Body::Document(json) => record.response_object(json),
        Body::List(list) => record.response_object(&whole(kind, list)),
        Body::Status(status) => {
            let json = serde_json::to_vec(status);
            record.response_object(&json.expect("a status is strings and numbers"));
        }
        Body::Watch(_) => {}
    }
}

fn whole(kind: &Arc<dyn Kind>, list: &List) -> Vec<u8> {
    let about = kind.about();
    let (kind, version, metadata) = (&about.list_kind, about.gvk.api_version(), list_metadata(list));
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
