//! In which language objects travel: JSON, or protobuf where both ends have it.
//!
//! Custom kinds have no protobuf, nor has a kind that this program does not know. What else a server does not speak
//! shows when it refuses, which it does once for each resource.

use std::collections::HashMap;

use ::http::{HeaderMap, header};
use parking_lot::Mutex;
use setpoint_api::{Gvr, Status, Verb};
use setpoint_codec::media::{self, MediaType};
use setpoint_codec::protobuf::document;

/// What a body is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Json,
    Protobuf,
}

/// How much of an object is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    Metadata,
}

/// Which resources are spoken of in protobuf.
#[derive(Debug, Default)]
pub(crate) struct Languages {
    /// Absent where JSON is spoken of everything.
    spoken: Option<Mutex<HashMap<Gvr, Language>>>,
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

// === impl Language ===

impl Language {
    /// The language of an answer.
    pub(crate) fn of_answer(headers: &HeaderMap) -> Self {
        let written = headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        match MediaType::parse(written.unwrap_or_default()).essence {
            media::PROTOBUF => Self::Protobuf,
            _ => Self::Json,
        }
    }

    /// What is asked for. JSON is always among it.
    pub(crate) fn accept(self, form: Form, verb: &Verb) -> &'static str {
        match (self, form, verb) {
            (Self::Json, Form::Whole, _) => JSON,
            (Self::Json, Form::Metadata, Verb::List(_)) => METADATA_LIST,
            (Self::Json, Form::Metadata, _) => METADATA,
            (Self::Protobuf, Form::Whole, _) => PROTOBUF,
            (Self::Protobuf, Form::Metadata, Verb::List(_)) => PROTOBUF_METADATA_LIST,
            (Self::Protobuf, Form::Metadata, _) => PROTOBUF_METADATA,
        }
    }
}

// === impl Languages ===

impl Languages {
    /// Protobuf where it can be.
    pub(crate) fn with_protobuf() -> Self {
        let spoken = Some(Mutex::default());
        Self { spoken }
    }

    /// What is spoken of a resource.
    pub(crate) fn of(&self, resource: &Gvr) -> Language {
        let Some(spoken) = &self.spoken else {
            return Language::Json;
        };
        let mut spoken = spoken.lock();
        if let Some(language) = spoken.get(resource) {
            return *language;
        }
        let is_known = document::is_known(&resource.group, &resource.version, &resource.resource);
        let language = match is_known {
            true => Language::Protobuf,
            false => Language::Json,
        };
        spoken.insert(resource.clone(), language);
        language
    }

    /// Notes that the server has no protobuf of a resource.
    pub(crate) fn refuse(&self, resource: &Gvr) {
        if let Some(spoken) = &self.spoken {
            spoken.lock().insert(resource.clone(), Language::Json);
        }
    }
}

/// Whether the server says that it does not speak so. It says it before it does anything.
pub(crate) fn is_refused(status: &Status) -> bool {
    matches!(status.code, 406 | 415)
}
