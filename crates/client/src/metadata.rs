//! Objects of which only the metadata matters.
//!
//! In this process an object's header says most of it for free. Over the wire, [`crate::Http::metadata_only`] makes a
//! server that sends nothing else; informers over it keep a fraction of what whole objects take.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use setpoint_api::{Status, Stored};

/// Any object, of which nothing but the metadata is decoded.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Partial {
    /// The group and version it is shown in.
    #[serde(default)]
    pub api_version: String,
    /// What it is.
    #[serde(default)]
    pub kind: String,
    /// All of its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
}

/// The metadata of any object, decoded once for all readers.
pub fn metadata(object: &Stored) -> Result<Arc<Partial>, Status> {
    object
        .view()
        .map_err(|error| Status::internal(format_args!("cannot decode {:?}: {error}", object.key())))
}
