//! The wire format of objects: JSON, or protobuf where both sides support it.
//!
//! Custom kinds have no protobuf form, nor have kinds unknown to this program. For others, a server without protobuf rejects
//! the first request of each resource, and the client falls back to JSON.

use std::collections::HashMap;

use ::http::{HeaderMap, header};
use parking_lot::Mutex;
use setpoint_api::{Gvr, Status, Verb};
use setpoint_codec::media::{self, MediaType};
use setpoint_codec::protobuf::builtin;

/// The format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireFormat {
    Json,
    Protobuf,
}

/// Which fields of objects are requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Projection {
    Full,
    Metadata,
}

/// The format of each resource.
#[derive(Debug, Default)]
pub(crate) struct ResourceFormats {
    /// Absent if everything is JSON.
    by_resource: Option<Mutex<HashMap<Gvr, WireFormat>>>,
}

pub(crate) const JSON: &str = media::JSON;
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf,application/json";
const PROTOBUF_METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const PROTOBUF_METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

// === impl WireFormat ===

impl WireFormat {
    /// The format of a response.
    pub(crate) fn of_response(headers: &HeaderMap) -> Self {
        let content_type = headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        match MediaType::parse(content_type.unwrap_or_default()).essence {
            media::PROTOBUF => Self::Protobuf,
            _ => Self::Json,
        }
    }

    /// The `Accept` header. It always includes JSON.
    pub(crate) fn accept(self, form: Projection, verb: &Verb) -> &'static str {
        match (self, form, verb) {
            (Self::Json, Projection::Full, _) => JSON,
            (Self::Json, Projection::Metadata, Verb::List(_)) => METADATA_LIST,
            (Self::Json, Projection::Metadata, _) => METADATA,
            (Self::Protobuf, Projection::Full, _) => PROTOBUF,
            (Self::Protobuf, Projection::Metadata, Verb::List(_)) => PROTOBUF_METADATA_LIST,
            (Self::Protobuf, Projection::Metadata, _) => PROTOBUF_METADATA,
        }
    }
}

// === impl ResourceFormats ===

impl ResourceFormats {
    /// Protobuf where the kind has it.
    pub(crate) fn with_protobuf() -> Self {
        let by_resource = Some(Mutex::default());
        Self { by_resource }
    }

    /// The format of a resource.
    pub(crate) fn for_resource(&self, resource: &Gvr) -> WireFormat {
        let Some(by_resource) = &self.by_resource else {
            return WireFormat::Json;
        };
        let mut by_resource = by_resource.lock();
        if let Some(format) = by_resource.get(resource) {
            return *format;
        }
        let is_known = builtin::supports_resource(&resource.group, &resource.version, &resource.resource);
        let format = match is_known {
            true => WireFormat::Protobuf,
            false => WireFormat::Json,
        };
        by_resource.insert(resource.clone(), format);
        format
    }

    /// Records that the server has no protobuf form of a resource.
    pub(crate) fn fall_back_to_json(&self, resource: &Gvr) {
        if let Some(by_resource) = &self.by_resource {
            by_resource.lock().insert(resource.clone(), WireFormat::Json);
        }
    }
}

/// Whether the server rejected the format. It does so before it executes the request.
pub(crate) fn is_unsupported(status: &Status) -> bool {
    matches!(status.code, 406 | 415)
}
