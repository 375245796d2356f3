//! The AdmissionReview that is sent to a webhook.

use bytes::Bytes;
use serde::Serialize;
use setpoint_registry_api::Review;
use setpoint_schema::{Map, fields};

use super::configuration::ReviewVersion;
use crate::admission_request::request_tree;
use crate::matching::MatchedResource;
use crate::object_form::VersionedObjects;

/// The AdmissionReview of a request, in JSON. The objects are JSON already.
pub(super) fn write(
    (version, uid): (ReviewVersion, &str),
    review: &Review<'_>,
    matched: &MatchedResource,
    objects: &VersionedObjects<Vec<u8>>,
) -> Bytes {
    let [object, old_object] =
        [&objects.object, &objects.old_object].map(|json| json.as_deref().unwrap_or(b"null"));
    let mut request = JsonObject::with_capacity(object.len() + old_object.len() + 2048);
    request.member("uid", uid);
    let members = request_tree(review, matched);
    for (name, value) in members.as_map().into_iter().flat_map(Map::iter) {
        request.member(name, value);
    }
    request.raw("object", object);
    request.raw("oldObject", old_object);
    if members.get(fields::OPTIONS).is_none() {
        request.raw("options", b"null");
    }
    let mut body = JsonObject::with_capacity(0);
    body.member("kind", "AdmissionReview");
    body.member("apiVersion", &format!("admission.k8s.io/{}", version.name()));
    body.raw("request", &request.finish());
    Bytes::from(body.finish())
}

/// A JSON object that is written member by member, in their order.
struct JsonObject(Vec<u8>);

impl JsonObject {
    fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    fn raw(&mut self, name: &str, json: &[u8]) {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        self.0.push(b'"');
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
        self.0.extend_from_slice(json);
    }

    fn member(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        let json = serde_json::to_vec(value).expect("text and trees are JSON");
        self.raw(name, &json);
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}
