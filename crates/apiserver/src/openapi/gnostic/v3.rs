//! Messages of OpenAPI v3, as far as our OpenAPI documents use them.

use serde_json::Value;

use super::{FieldEncoding, Message};

pub(in super::super) static DOCUMENT: Message = Message {
    members: &[
        ("openapi", 1, FieldEncoding::Text),
        ("info", 2, FieldEncoding::One(&INFO)),
        ("paths", 4, FieldEncoding::One(&PATHS)),
        ("components", 5, FieldEncoding::One(&COMPONENTS)),
    ],
    extensions: 9,
    additional: None,
};

static INFO: Message = Message {
    members: &[
        ("title", 1, FieldEncoding::Text),
        ("description", 2, FieldEncoding::Text),
        ("version", 6, FieldEncoding::Text),
    ],
    extensions: 7,
    additional: None,
};

static PATHS: Message = Message {
    members: &[],
    extensions: 2,
    additional: Some((1, FieldEncoding::One(&PATH))),
};

static PATH: Message = Message {
    members: &[
        ("get", 4, FieldEncoding::One(&OPERATION)),
        ("put", 5, FieldEncoding::One(&OPERATION)),
        ("post", 6, FieldEncoding::One(&OPERATION)),
        ("delete", 7, FieldEncoding::One(&OPERATION)),
        ("options", 8, FieldEncoding::One(&OPERATION)),
        ("head", 9, FieldEncoding::One(&OPERATION)),
        ("patch", 10, FieldEncoding::One(&OPERATION)),
        (
            "parameters",
            13,
            FieldEncoding::ManyIn(1, &FieldEncoding::One(&PARAMETER)),
        ),
    ],
    extensions: 14,
    additional: None,
};

static OPERATION: Message = Message {
    members: &[
        ("tags", 1, FieldEncoding::Texts),
        ("description", 3, FieldEncoding::Text),
        ("operationId", 5, FieldEncoding::Text),
        (
            "parameters",
            6,
            FieldEncoding::ManyIn(1, &FieldEncoding::One(&PARAMETER)),
        ),
        (
            "requestBody",
            7,
            FieldEncoding::In(1, &FieldEncoding::One(&REQUEST_BODY)),
        ),
        ("responses", 8, FieldEncoding::One(&RESPONSES)),
        ("deprecated", 10, FieldEncoding::Flag),
    ],
    extensions: 13,
    additional: None,
};

static PARAMETER: Message = Message {
    members: &[
        ("name", 1, FieldEncoding::Text),
        ("in", 2, FieldEncoding::Text),
        ("description", 3, FieldEncoding::Text),
        ("required", 4, FieldEncoding::Flag),
        ("schema", 10, FieldEncoding::Either(schema)),
    ],
    extensions: 14,
    additional: None,
};

static REQUEST_BODY: Message = Message {
    members: &[
        ("description", 1, FieldEncoding::Text),
        ("content", 2, FieldEncoding::One(&CONTENT)),
        ("required", 3, FieldEncoding::Flag),
    ],
    extensions: 4,
    additional: None,
};

static RESPONSES: Message = Message {
    members: &[],
    extensions: 3,
    additional: Some((2, FieldEncoding::In(1, &FieldEncoding::One(&RESPONSE)))),
};

static RESPONSE: Message = Message {
    members: &[
        ("description", 1, FieldEncoding::Text),
        ("content", 3, FieldEncoding::One(&CONTENT)),
    ],
    extensions: 5,
    additional: None,
};

static CONTENT: Message = Message {
    members: &[],
    extensions: 0,
    additional: Some((1, FieldEncoding::One(&MEDIA))),
};

static MEDIA: Message = Message {
    members: &[("schema", 1, FieldEncoding::Either(schema))],
    extensions: 5,
    additional: None,
};

/// A schema, or a reference to one.
fn schema(value: &Value) -> (u32, FieldEncoding) {
    match value.get("$ref") {
        Some(_) => (2, FieldEncoding::One(&REFERENCE)),
        None => (1, FieldEncoding::One(&SCHEMA)),
    }
}

static REFERENCE: Message = Message {
    members: &[
        ("$ref", 1, FieldEncoding::Text),
        ("description", 3, FieldEncoding::Text),
    ],
    extensions: 0,
    additional: None,
};

static COMPONENTS: Message = Message {
    members: &[
        ("schemas", 1, FieldEncoding::One(&SCHEMAS)),
        ("securitySchemes", 7, FieldEncoding::One(&SECURITY)),
    ],
    extensions: 10,
    additional: None,
};

static SCHEMAS: Message = Message {
    members: &[],
    extensions: 0,
    additional: Some((1, FieldEncoding::Either(schema))),
};

static SCHEMA: Message = Message {
    members: &[
        ("nullable", 1, FieldEncoding::Flag),
        ("title", 9, FieldEncoding::Text),
        ("uniqueItems", 20, FieldEncoding::Flag),
        ("required", 23, FieldEncoding::Texts),
        ("enum", 24, FieldEncoding::Anys),
        ("type", 25, FieldEncoding::Text),
        ("allOf", 26, FieldEncoding::ManyEither(schema)),
        ("oneOf", 27, FieldEncoding::ManyEither(schema)),
        ("anyOf", 28, FieldEncoding::ManyEither(schema)),
        ("items", 30, FieldEncoding::In(1, &FieldEncoding::Either(schema))),
        ("properties", 31, FieldEncoding::One(&SCHEMAS)),
        (
            "additionalProperties",
            32,
            FieldEncoding::In(1, &FieldEncoding::Either(schema)),
        ),
        ("default", 33, FieldEncoding::Scalar),
        ("description", 34, FieldEncoding::Text),
        ("format", 35, FieldEncoding::Text),
    ],
    extensions: 36,
    additional: None,
};

static SECURITY: Message = Message {
    members: &[],
    extensions: 0,
    additional: Some((1, FieldEncoding::In(1, &FieldEncoding::One(&SECURITY_SCHEME)))),
};

static SECURITY_SCHEME: Message = Message {
    members: &[
        ("type", 1, FieldEncoding::Text),
        ("description", 2, FieldEncoding::Text),
        ("name", 3, FieldEncoding::Text),
        ("in", 4, FieldEncoding::Text),
    ],
    extensions: 9,
    additional: None,
};
