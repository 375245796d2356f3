//! The messages of version 3, as far as our documents use them.

use serde_json::Value;

use super::{How, Message};

pub(in super::super) static DOCUMENT: Message = Message {
    members: &[
        ("openapi", 1, How::Text),
        ("info", 2, How::One(&INFO)),
        ("paths", 4, How::One(&PATHS)),
        ("components", 5, How::One(&COMPONENTS)),
    ],
    extensions: 9,
    others: None,
};

static INFO: Message = Message {
    members: &[
        ("title", 1, How::Text),
        ("description", 2, How::Text),
        ("version", 6, How::Text),
    ],
    extensions: 7,
    others: None,
};

static PATHS: Message = Message {
    members: &[],
    extensions: 2,
    others: Some((1, How::One(&PATH))),
};

static PATH: Message = Message {
    members: &[
        ("get", 4, How::One(&OPERATION)),
        ("put", 5, How::One(&OPERATION)),
        ("post", 6, How::One(&OPERATION)),
        ("delete", 7, How::One(&OPERATION)),
        ("options", 8, How::One(&OPERATION)),
        ("head", 9, How::One(&OPERATION)),
        ("patch", 10, How::One(&OPERATION)),
        ("parameters", 13, How::ManyIn(1, &How::One(&PARAMETER))),
    ],
    extensions: 14,
    others: None,
};

static OPERATION: Message = Message {
    members: &[
        ("tags", 1, How::Texts),
        ("description", 3, How::Text),
        ("operationId", 5, How::Text),
        ("parameters", 6, How::ManyIn(1, &How::One(&PARAMETER))),
        ("requestBody", 7, How::In(1, &How::One(&REQUEST_BODY))),
        ("responses", 8, How::One(&RESPONSES)),
        ("deprecated", 10, How::Flag),
    ],
    extensions: 13,
    others: None,
};

static PARAMETER: Message = Message {
    members: &[
        ("name", 1, How::Text),
        ("in", 2, How::Text),
        ("description", 3, How::Text),
        ("required", 4, How::Flag),
        ("schema", 10, How::Either(schema)),
    ],
    extensions: 14,
    others: None,
};

static REQUEST_BODY: Message = Message {
    members: &[
        ("description", 1, How::Text),
        ("content", 2, How::One(&CONTENT)),
        ("required", 3, How::Flag),
    ],
    extensions: 4,
    others: None,
};

static RESPONSES: Message = Message {
    members: &[],
    extensions: 3,
    others: Some((2, How::In(1, &How::One(&RESPONSE)))),
};

static RESPONSE: Message = Message {
    members: &[("description", 1, How::Text), ("content", 3, How::One(&CONTENT))],
    extensions: 5,
    others: None,
};

static CONTENT: Message = Message {
    members: &[],
    extensions: 0,
    others: Some((1, How::One(&MEDIA))),
};

static MEDIA: Message = Message {
    members: &[("schema", 1, How::Either(schema))],
    extensions: 5,
    others: None,
};

/// A schema, or a reference to one.
fn schema(value: &Value) -> (u32, How) {
    match value.get("$ref") {
        Some(_) => (2, How::One(&REFERENCE)),
        None => (1, How::One(&SCHEMA)),
    }
}

static REFERENCE: Message = Message {
    members: &[("$ref", 1, How::Text), ("description", 3, How::Text)],
    extensions: 0,
    others: None,
};

static COMPONENTS: Message = Message {
    members: &[
        ("schemas", 1, How::One(&SCHEMAS)),
        ("securitySchemes", 7, How::One(&SECURITY)),
    ],
    extensions: 10,
    others: None,
};

static SCHEMAS: Message = Message {
    members: &[],
    extensions: 0,
    others: Some((1, How::Either(schema))),
};

static SCHEMA: Message = Message {
    members: &[
        ("nullable", 1, How::Flag),
        ("title", 9, How::Text),
        ("uniqueItems", 20, How::Flag),
        ("required", 23, How::Texts),
        ("enum", 24, How::Anys),
        ("type", 25, How::Text),
        ("allOf", 26, How::ManyEither(schema)),
        ("oneOf", 27, How::ManyEither(schema)),
        ("anyOf", 28, How::ManyEither(schema)),
        ("items", 30, How::In(1, &How::Either(schema))),
        ("properties", 31, How::One(&SCHEMAS)),
        ("additionalProperties", 32, How::In(1, &How::Either(schema))),
        ("default", 33, How::Plain),
        ("description", 34, How::Text),
        ("format", 35, How::Text),
    ],
    extensions: 36,
    others: None,
};

static SECURITY: Message = Message {
    members: &[],
    extensions: 0,
    others: Some((1, How::In(1, &How::One(&SECURITY_SCHEME)))),
};

static SECURITY_SCHEME: Message = Message {
    members: &[
        ("type", 1, How::Text),
        ("description", 2, How::Text),
        ("name", 3, How::Text),
        ("in", 4, How::Text),
    ],
    extensions: 9,
    others: None,
};
