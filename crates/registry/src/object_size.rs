//! Limit of a stored object's size: what etcd accepts in one request, with kube-apiserver's response.
//!
//! The limit applies to the object as it would be stored, after defaulting, merging and admission. A dry run has none,
//! since upstream it does not reach etcd.

use setpoint_api::{Key, Status};
use setpoint_codec::protobuf;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::meta;

use crate::encoded_object::EncodedObject;
use crate::error;
use crate::request_context::RequestContext;

/// etcd's default limit of a request (`--max-request-bytes`).
const MAX_OBJECT_BYTES: usize = 1_572_864;

/// Limit of the JSON of a kind that upstream stores as protobuf, which is shorter: no request body is larger.
const MAX_JSON_BYTES: usize = 2 * MAX_OBJECT_BYTES;

/// What happens to an object that is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SizePolicy {
    /// It is rejected: an apply depends on the managed fields.
    Reject,
    /// Its managed fields are removed, which can be large. It is rejected if it is still too large.
    DropManagedFields,
}

impl RequestContext<'_> {
    /// The object to commit, or the status that it is too large.
    pub(crate) fn fit(
        &self,
        key: &Key,
        object: &Tree,
        encoded: EncodedObject,
        size_policy: SizePolicy,
    ) -> Result<EncodedObject, Status> {
        if self.is_within_limit(object, &encoded) {
            return Ok(encoded);
        }
        if size_policy == SizePolicy::DropManagedFields {
            let mut object = object.clone();
            meta::clear(&mut object, fields::MANAGED_FIELDS);
            let encoded = self.resource.encode(key, &object)?;
            if self.is_within_limit(&object, &encoded) {
                return Ok(encoded);
            }
        }
        Err(error::plain(500, "etcdserver: request is too large"))
    }

    /// As [`RequestContext::fit`], for a new object whose managed fields are not in its tree.
    pub(crate) fn fit_new(
        &self,
        key: &Key,
        (object, managed_fields): (&Tree, Option<&[u8]>),
        encoded: EncodedObject,
        size_policy: SizePolicy,
    ) -> Result<EncodedObject, Status> {
        match managed_fields {
            Some(json) if encoded.written.json_bytes() > MAX_OBJECT_BYTES => {
                let object = meta::with_managed_fields(object, json).map_err(error::undecodable)?;
                self.fit(key, &object, encoded, size_policy)
            }
            _ => self.fit(key, object, encoded, size_policy),
        }
    }

    fn is_within_limit(&self, object: &Tree, encoded: &EncodedObject) -> bool {
        let json_bytes = encoded.written.json_bytes();
        if json_bytes <= MAX_OBJECT_BYTES {
            return true;
        }
        let shape = self.kind.shape();
        json_bytes <= MAX_JSON_BYTES
            && protobuf::has_protobuf_form(shape)
            && protobuf::encode(shape, object).len() <= MAX_OBJECT_BYTES
    }
}
