//! Schemas of Kubernetes types that are common in a status, for `#[schemars(schema_with = "...")]`.

use schemars::{Schema, SchemaGenerator, json_schema};

/// An optional timestamp.
pub fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time", "nullable": true})
}

/// The conditions of an object: a map list by type, so that several writers can apply their own.
pub fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "What is true of the object, and since when.",
        "type": "array",
        "default": [],
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {"type": "string", "maxLength": 316},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
                "message": {"type": "string", "maxLength": 32768},
            },
        },
    })
}
