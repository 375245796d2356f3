//! The messages of version 2, as far as our documents use them.

use serde_json::Value;

use super::{How, Message};

pub(in super::super) static DOCUMENT: Message = Message {
    members: &[
        ("swagger", 1, How::Text),
        ("info", 2, How::One(&INFO)),
        ("paths", 8, How::One(&PATHS)),
        ("definitions", 9, How::One(&SCHEMAS)),
        ("parameters", 10, How::One(&PARAMETERS)),
        ("security", 12, How::Many(&SECURITY)),
        ("securityDefinitions", 13, How::One(&SECURITY_DEFINITIONS)),
    ],
    extensions: 16,
    others: None,
};

static INFO: Message = Message {
    members: &[
        ("title", 1, How::Text),
        ("version", 2, How::Text),
        ("description", 3, How::Text),
    ],
    extensions: 7,
    others: None,
};

static PATHS: Message = Message {
    members: &[],
    extensions: 1,
    others: Some((2, How::One(&PATH))),
};

static PATH: Message = Message {
    members: &[
        ("get", 2, How::One(&OPERATION)),
        ("put", 3, How::One(&OPERATION)),
        ("post", 4, How::One(&OPERATION)),
        ("delete", 5, How::One(&OPERATION)),
        ("options", 6, How::One(&OPERATION)),
        ("head", 7, How::One(&OPERATION)),
        ("patch", 8, How::One(&OPERATION)),
        ("parameters", 9, How::ManyEither(parameter)),
    ],
    extensions: 10,
    others: None,
};

static OPERATION: Message = Message {
    members: &[
        ("tags", 1, How::Texts),
        ("description", 3, How::Text),
        ("operationId", 5, How::Text),
        ("produces", 6, How::Texts),
        ("consumes", 7, How::Texts),
        ("parameters", 8, How::ManyEither(parameter)),
        ("responses", 9, How::One(&RESPONSES)),
        ("schemes", 10, How::Texts),
        ("deprecated", 11, How::Flag),
    ],
    extensions: 13,
    others: None,
};

/// A parameter, or a reference to one.
fn parameter(value: &Value) -> (u32, How) {
    match value.get("$ref") {
        Some(_) => (2, How::One(&REFERENCE)),
        None => (1, How::Either(located)),
    }
}

/// In the body, or elsewhere.
fn located(value: &Value) -> (u32, How) {
    match value["in"] == "body" {
        true => (1, How::One(&BODY)),
        false => (2, How::Either(outside)),
    }
}

fn outside(value: &Value) -> (u32, How) {
    match value["in"] == "path" {
        true => (4, How::One(&IN_PATH)),
        false => (3, How::One(&IN_QUERY)),
    }
}

static PARAMETERS: Message = Message {
    members: &[],
    extensions: 0,
    others: Some((1, How::Either(located))),
};

static REFERENCE: Message = Message {
    members: &[("$ref", 1, How::Text), ("description", 2, How::Text)],
    extensions: 0,
    others: None,
};

static BODY: Message = Message {
    members: &[
        ("description", 1, How::Text),
        ("name", 2, How::Text),
        ("in", 3, How::Text),
        ("required", 4, How::Flag),
        ("schema", 5, How::One(&SCHEMA)),
    ],
    extensions: 6,
    others: None,
};

static IN_PATH: Message = Message {
    members: &[
        ("required", 1, How::Flag),
        ("in", 2, How::Text),
        ("description", 3, How::Text),
        ("name", 4, How::Text),
        ("type", 5, How::Text),
        ("format", 6, How::Text),
        ("uniqueItems", 19, How::Flag),
    ],
    extensions: 22,
    others: None,
};

static IN_QUERY: Message = Message {
    members: &[
        ("required", 1, How::Flag),
        ("in", 2, How::Text),
        ("description", 3, How::Text),
        ("name", 4, How::Text),
        ("type", 6, How::Text),
        ("format", 7, How::Text),
        ("uniqueItems", 20, How::Flag),
    ],
    extensions: 23,
    others: None,
};

static RESPONSES: Message = Message {
    members: &[],
    extensions: 2,
    others: Some((1, How::In(1, &How::One(&RESPONSE)))),
};

static RESPONSE: Message = Message {
    members: &[
        ("description", 1, How::Text),
        ("schema", 2, How::In(1, &How::One(&SCHEMA))),
    ],
    extensions: 5,
    others: None,
};

static SCHEMAS: Message = Message {
    members: &[],
    extensions: 0,
    others: Some((1, How::One(&SCHEMA))),
};

static SCHEMA: Message = Message {
    members: &[
        ("$ref", 1, How::Text),
        ("format", 2, How::Text),
        ("title", 3, How::Text),
        ("description", 4, How::Text),
        ("default", 5, How::Any),
        ("required", 19, How::Texts),
        ("enum", 20, How::Anys),
        ("additionalProperties", 21, How::In(1, &How::One(&SCHEMA))),
        ("type", 22, How::In(1, &How::Text)),
        ("items", 23, How::In(1, &How::One(&SCHEMA))),
        ("allOf", 24, How::Many(&SCHEMA)),
        ("properties", 25, How::One(&SCHEMAS)),
    ],
    extensions: 31,
    others: None,
};

static SECURITY: Message = Message {
    members: &[],
    extensions: 0,
    others: Some((1, How::In(1, &How::Texts))),
};

static SECURITY_DEFINITIONS: Message = Message {
    members: &[],
    extensions: 0,
    others: Some((1, How::In(2, &How::One(&API_KEY)))),
};

static API_KEY: Message = Message {
    members: &[
        ("type", 1, How::Text),
        ("name", 2, How::Text),
        ("in", 3, How::Text),
        ("description", 4, How::Text),
    ],
    extensions: 5,
    others: None,
};
