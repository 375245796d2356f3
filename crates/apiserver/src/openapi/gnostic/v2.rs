//! Messages of OpenAPI v2, as far as our OpenAPI documents use them.

use serde_json::Value;

use super::{FieldEncoding, Message};

pub(in super::super) static DOCUMENT: Message = Message {
    members: &[
        ("swagger", 1, FieldEncoding::Text),
        ("info", 2, FieldEncoding::One(&INFO)),
        ("paths", 8, FieldEncoding::One(&PATHS)),
        ("definitions", 9, FieldEncoding::One(&SCHEMAS)),
        ("parameters", 10, FieldEncoding::One(&PARAMETERS)),
        ("security", 12, FieldEncoding::Many(&SECURITY)),
        (
            "securityDefinitions",
            13,
            FieldEncoding::One(&SECURITY_DEFINITIONS),
        ),
    ],
    extensions: 16,
    additional: None,
};

static INFO: Message = Message {
    members: &[
        ("title", 1, FieldEncoding::Text),
        ("version", 2, FieldEncoding::Text),
        ("description", 3, FieldEncoding::Text),
    ],
    extensions: 7,
    additional: None,
};

static PATHS: Message = Message {
    members: &[],
    extensions: 1,
    additional: Some((2, FieldEncoding::One(&PATH))),
};

static PATH: Message = Message {
    members: &[
        ("get", 2, FieldEncoding::One(&OPERATION)),
        ("put", 3, FieldEncoding::One(&OPERATION)),
        ("post", 4, FieldEncoding::One(&OPERATION)),
        ("delete", 5, FieldEncoding::One(&OPERATION)),
        ("options", 6, FieldEncoding::One(&OPERATION)),
        ("head", 7, FieldEncoding::One(&OPERATION)),
        ("patch", 8, FieldEncoding::One(&OPERATION)),
        ("parameters", 9, FieldEncoding::ManyEither(parameter)),
    ],
    extensions: 10,
    additional: None,
};

static OPERATION: Message = Message {
    members: &[
        ("tags", 1, FieldEncoding::Texts),
        ("description", 3, FieldEncoding::Text),
        ("operationId", 5, FieldEncoding::Text),
        ("produces", 6, FieldEncoding::Texts),
        ("consumes", 7, FieldEncoding::Texts),
        ("parameters", 8, FieldEncoding::ManyEither(parameter)),
        ("responses", 9, FieldEncoding::One(&RESPONSES)),
        ("schemes", 10, FieldEncoding::Texts),
        ("deprecated", 11, FieldEncoding::Flag),
    ],
    extensions: 13,
    additional: None,
};

/// A parameter, or a reference to one.
fn parameter(value: &Value) -> (u32, FieldEncoding) {
    match value.get("$ref") {
        Some(_) => (2, FieldEncoding::One(&REFERENCE)),
        None => (1, FieldEncoding::Either(located)),
    }
}

/// A parameter in the body, or elsewhere.
fn located(value: &Value) -> (u32, FieldEncoding) {
    match value["in"] == "body" {
        true => (1, FieldEncoding::One(&BODY)),
        false => (2, FieldEncoding::Either(outside)),
    }
}

fn outside(value: &Value) -> (u32, FieldEncoding) {
    match value["in"] == "path" {
        true => (4, FieldEncoding::One(&IN_PATH)),
        false => (3, FieldEncoding::One(&IN_QUERY)),
    }
}

static PARAMETERS: Message = Message {
    members: &[],
    extensions: 0,
    additional: Some((1, FieldEncoding::Either(located))),
};

static REFERENCE: Message = Message {
    members: &[
        ("$ref", 1, FieldEncoding::Text),
        ("description", 2, FieldEncoding::Text),
    ],
    extensions: 0,
    additional: None,
};

static BODY: Message = Message {
    members: &[
        ("description", 1, FieldEncoding::Text),
        ("name", 2, FieldEncoding::Text),
        ("in", 3, FieldEncoding::Text),
        ("required", 4, FieldEncoding::Flag),
        ("schema", 5, FieldEncoding::One(&SCHEMA)),
    ],
    extensions: 6,
    additional: None,
};

static IN_PATH: Message = Message {
    members: &[
        ("required", 1, FieldEncoding::Flag),
        ("in", 2, FieldEncoding::Text),
        ("description", 3, FieldEncoding::Text),
        ("name", 4, FieldEncoding::Text),
        ("type", 5, FieldEncoding::Text),
        ("format", 6, FieldEncoding::Text),
        ("uniqueItems", 19, FieldEncoding::Flag),
    ],
    extensions: 22,
    additional: None,
};

static IN_QUERY: Message = Message {
    members: &[
        ("required", 1, FieldEncoding::Flag),
        ("in", 2, FieldEncoding::Text),
        ("description", 3, FieldEncoding::Text),
        ("name", 4, FieldEncoding::Text),
        ("type", 6, FieldEncoding::Text),
        ("format", 7, FieldEncoding::Text),
        ("uniqueItems", 20, FieldEncoding::Flag),
    ],
    extensions: 23,
    additional: None,
};

static RESPONSES: Message = Message {
    members: &[],
    extensions: 2,
    additional: Some((1, FieldEncoding::In(1, &FieldEncoding::One(&RESPONSE)))),
};

static RESPONSE: Message = Message {
    members: &[
        ("description", 1, FieldEncoding::Text),
        ("schema", 2, FieldEncoding::In(1, &FieldEncoding::One(&SCHEMA))),
    ],
    extensions: 5,
    additional: None,
};

static SCHEMAS: Message = Message {
    members: &[],
    extensions: 0,
    additional: Some((1, FieldEncoding::One(&SCHEMA))),
};

static SCHEMA: Message = Message {
    members: &[
        ("$ref", 1, FieldEncoding::Text),
        ("format", 2, FieldEncoding::Text),
        ("title", 3, FieldEncoding::Text),
        ("description", 4, FieldEncoding::Text),
        ("default", 5, FieldEncoding::Any),
        ("required", 19, FieldEncoding::Texts),
        ("enum", 20, FieldEncoding::Anys),
        (
            "additionalProperties",
            21,
            FieldEncoding::In(1, &FieldEncoding::One(&SCHEMA)),
        ),
        ("type", 22, FieldEncoding::In(1, &FieldEncoding::Text)),
        ("items", 23, FieldEncoding::In(1, &FieldEncoding::One(&SCHEMA))),
        ("allOf", 24, FieldEncoding::Many(&SCHEMA)),
        ("properties", 25, FieldEncoding::One(&SCHEMAS)),
    ],
    extensions: 31,
    additional: None,
};

static SECURITY: Message = Message {
    members: &[],
    extensions: 0,
    additional: Some((1, FieldEncoding::In(1, &FieldEncoding::Texts))),
};

static SECURITY_DEFINITIONS: Message = Message {
    members: &[],
    extensions: 0,
    additional: Some((1, FieldEncoding::In(2, &FieldEncoding::One(&API_KEY)))),
};

static API_KEY: Message = Message {
    members: &[
        ("type", 1, FieldEncoding::Text),
        ("name", 2, FieldEncoding::Text),
        ("in", 3, FieldEncoding::Text),
        ("description", 4, FieldEncoding::Text),
    ],
    extensions: 5,
    additional: None,
};
