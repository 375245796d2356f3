//! Metadata of objects of any kind.
//!
//! The header of a stored object has most of it without decoding. A remote server sends nothing but metadata to a
//! [`crate::Http::metadata_only`] client, whose informers need a fraction of the memory of whole objects.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use setpoint_api::{Status, Stored};

/// The type and the metadata of an object of any kind.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartialObjectMetadata {
    /// Its group and version.
    #[serde(default)]
    pub api_version: String,
    /// Its kind.
    #[serde(default)]
    pub kind: String,
    /// All of its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
}

/// The metadata of any object, decoded once for all readers.
pub fn metadata(object: &Stored) -> Result<Arc<PartialObjectMetadata>, Status> {
    object
        .view()
        .map_err(|error| Status::internal(format_args!("cannot decode {:?}: {error}", object.key())))
}
