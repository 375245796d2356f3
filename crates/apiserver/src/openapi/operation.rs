//! One operation: its id, description, parameters, request body and responses.

use serde_json::{Map, Value, json};
use setpoint_api::{ApiVerb, Gvk};
use setpoint_codec::media;
use setpoint_strategy::KindInfo;

use super::operations::Paths;
use super::parameters::Parameter;
use super::sentences;
use super::verb_spec::VerbSpec;

/// The media types of a patch; the last only for kinds with a protobuf encoding.
const PATCH_TYPES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
const JSON_STREAM: &str = "application/json;stream=watch";
const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Request and response types of an operation.
pub(super) struct OperationTypes<'a> {
    pub gvk: (&'a str, &'a str, &'a str),
    /// Suffix of the operation id: the kind and what follows it.
    pub subject: String,
    /// The name of the subresource; empty for the resource itself.
    pub subresource: &'a str,
    pub request: Option<&'a Value>,
    pub response: &'a Value,
    pub encodings: Encodings,
}

/// The encodings of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encodings {
    /// A built-in kind with a protobuf form.
    Protobuf,
    /// A built-in kind without one.
    Json,
    /// A custom kind.
    Custom,
}

impl<'a> OperationTypes<'a> {
    /// The types of an operation without a request body.
    pub(super) fn read(
        info: &'a KindInfo,
        subject: String,
        response: &'a Value,
        encodings: Encodings,
    ) -> Self {
        let Gvk { group, version, kind } = &info.gvk;
        Self {
            gvk: (group, version, kind),
            subject,
            subresource: "",
            request: None,
            response,
            encodings,
        }
    }
}

impl Encodings {
    fn has_protobuf(self) -> bool {
        self == Self::Protobuf
    }

    /// The media types of responses of a verb. Those of custom kinds do not mention streams.
    fn response_types(self, verb: ApiVerb) -> Vec<&'static str> {
        match verb {
            ApiVerb::List | ApiVerb::Watch if self != Self::Custom => stream_types(self.has_protobuf()),
            _ => plain_types(self.has_protobuf()),
        }
    }

    /// The content of a request body: one schema in every media type.
    fn request_content(self, schema: &Value) -> Value {
        match self {
            Self::Custom => content(&[media::JSON, media::YAML], schema),
            Self::Json | Self::Protobuf => content(&["*/*"], schema),
        }
    }
}

impl Paths {
    pub(super) fn operation(&mut self, spec: &VerbSpec, types: &OperationTypes<'_>) -> Value {
        let collection = if spec.verb == ApiVerb::DeleteCollection {
            "Collection"
        } else {
            ""
        };
        let id = format!("{}{}{collection}{}", spec.prefix(), self.name, types.subject);
        let media_types = types.encodings.response_types(spec.verb);
        let response = |(code, text): &(&str, &str)| {
            let content = content(&media_types, types.response);
            (
                (*code).to_owned(),
                json!({"description": text, "content": content}),
            )
        };
        let mut responses: Map<String, Value> = spec.codes.iter().map(response).collect();
        responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        let (group, version, kind) = types.gvk;
        let parameters = spec.query.iter();
        let parameters = parameters.map(|(name, schema_type)| Parameter::query(name, schema_type).to_value());
        let mut operation = json!({
            "tags": [self.tag],
            "description": sentences::of_operation(spec.verb, kind, types.subresource),
            "operationId": id,
            "parameters": parameters.collect::<Vec<_>>(),
            "responses": responses,
            "x-kubernetes-action": spec.action,
            "x-kubernetes-group-version-kind": {"group": group, "kind": kind, "version": version},
        });
        if let Some(body) = self.body(spec, types) {
            operation["requestBody"] = body;
        }
        operation
    }

    fn body(&mut self, spec: &VerbSpec, types: &OperationTypes<'_>) -> Option<Value> {
        match spec.verb {
            ApiVerb::Create | ApiVerb::Update => {
                let content = types.encodings.request_content(types.request?);
                Some(json!({"content": content, "required": true}))
            }
            ApiVerb::DeleteCollection if types.encodings == Encodings::Custom => None,
            ApiVerb::Delete | ApiVerb::DeleteCollection => {
                let options = self.meta("DeleteOptions");
                Some(json!({"content": types.encodings.request_content(&options)}))
            }
            ApiVerb::Patch => {
                let name = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
                let patch = self.schemas.reference_as(name, || json!({"type": "object"}));
                let count = PATCH_TYPES.len() - usize::from(!types.encodings.has_protobuf());
                Some(json!({"content": content(&PATCH_TYPES[..count], &patch), "required": true}))
            }
            ApiVerb::Get | ApiVerb::List | ApiVerb::Watch => None,
        }
    }
}

/// A GET without a request body.
pub(super) fn get_operation(id: &str, tag: &str, response: &Value, types: &[&str]) -> Value {
    json!({
        "tags": [tag],
        "operationId": id,
        "responses": {
            "200": {"description": "OK", "content": content(types, response)},
            "401": {"description": "Unauthorized"},
        },
    })
}

/// The same schema in every media type.
fn content(types: &[&str], schema: &Value) -> Value {
    let entry = |media_type: &&str| ((*media_type).to_owned(), json!({"schema": schema}));
    types.iter().map(entry).collect::<Map<String, Value>>().into()
}

pub(super) fn plain_types(protobuf: bool) -> Vec<&'static str> {
    match protobuf {
        true => vec![media::JSON, media::YAML, media::PROTOBUF],
        false => vec![media::JSON, media::YAML],
    }
}

fn stream_types(protobuf: bool) -> Vec<&'static str> {
    let mut types = plain_types(protobuf);
    types.push(JSON_STREAM);
    types.extend(protobuf.then_some(PROTOBUF_STREAM));
    types
}
