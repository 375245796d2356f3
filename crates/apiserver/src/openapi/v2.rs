//! OpenAPI v2: one OpenAPI document, converted from those of v3.
//!
//! v2 has no `oneOf`, lists media types beside the responses instead of around them, and writes `allOf` with a
//! reference as a plain `$ref`. Defaults are left out.

use serde_json::{Map, Value, json};
use setpoint_schema::openapi::{DEFINITIONS, OpenApiVersion, SCHEMAS};
use setpoint_strategy::Kinds;

use super::descriptions::Descriptions;
use super::v3;

/// The OpenAPI document of v2, under construction.
#[derive(Debug, Default)]
struct V2Document {
    paths: Map<String, Value>,
    definitions: Map<String, Value>,
    parameters: Map<String, Value>,
}

/// Merges the v3 OpenAPI documents of the kinds into one of v2.
pub(super) fn build(kinds: &Kinds) -> Value {
    let mut v2 = V2Document::default();
    // The schemas of custom kinds differ by more than the version.
    let custom = kinds
        .iter()
        .filter_map(|kind| kind.openapi_schema(OpenApiVersion::V2));
    v2.definitions.extend(custom);
    let descriptions = Descriptions::builtin();
    for source in v3::sources(kinds) {
        v2.add(&source.build(&descriptions));
    }
    json!({
        "swagger": "2.0",
        "info": v3::info(),
        "paths": v2.paths,
        "definitions": v2.definitions,
        "parameters": v2.parameters,
        "securityDefinitions": {"BearerToken": v3::bearer()},
        "security": [{"BearerToken": []}],
    })
}

impl V2Document {
    /// Adds an OpenAPI document of v3.
    fn add(&mut self, document: &Value) {
        for (path, item) in entries(&document["paths"]) {
            let item = path_item(item, &mut self.parameters);
            self.paths.insert(path.clone(), item);
        }
        for (name, schema) in entries(&document["components"]["schemas"]) {
            let schema = self::schema(schema);
            match self.definitions.get_mut(name) {
                Some(existing) => add_group_version_kinds(existing, &schema),
                None => {
                    self.definitions.insert(name.clone(), schema);
                }
            }
        }
    }
}

/// Adds the group-version-kinds of another occurrence of a schema.
fn add_group_version_kinds(schema: &mut Value, other: &Value) {
    const GROUP_VERSION_KINDS: &str = "x-kubernetes-group-version-kind";
    let Some(Value::Array(kinds)) = schema.get_mut(GROUP_VERSION_KINDS) else {
        return;
    };
    for kind in other[GROUP_VERSION_KINDS].as_array().into_iter().flatten() {
        if !kinds.contains(kind) {
            kinds.push(kind.clone());
        }
    }
}

fn schema(v3: &Value) -> Value {
    let mut v2 = Map::new();
    for (key, value) in entries(v3) {
        match key.as_str() {
            // Not expressible in v2.
            "default" | "anyOf" | "not" | "nullable" => {}
            "$ref" => {
                let reference = value
                    .as_str()
                    .unwrap_or_default()
                    .replacen(SCHEMAS, DEFINITIONS, 1);
                v2.insert(key.clone(), reference.into());
            }
            "allOf" => {
                for (key, value) in value
                    .as_array()
                    .into_iter()
                    .flatten()
                    .flat_map(|one| schema(one).as_object().cloned().unwrap_or_default())
                {
                    v2.insert(key, value);
                }
            }
            "oneOf" if v3.get("type").is_some() => {}
            "oneOf" => {
                v2.insert("type".to_owned(), "string".into());
            }
            "properties" => {
                let properties: Map<String, Value> = entries(value)
                    .map(|(name, value)| (name.clone(), schema(value)))
                    .collect();
                v2.insert(key.clone(), properties.into());
            }
            "items" | "additionalProperties" => {
                v2.insert(key.clone(), schema(value));
            }
            _ => {
                v2.insert(key.clone(), value.clone());
            }
        }
    }
    v2.into()
}

fn path_item(v3: &Value, shared: &mut Map<String, Value>) -> Value {
    let mut v2 = Map::new();
    for (key, value) in entries(v3) {
        let converted = match key.as_str() {
            "parameters" => parameters(value, shared).into(),
            _ => operation(value, shared),
        };
        v2.insert(key.clone(), converted);
    }
    v2.into()
}

fn operation(v3: &Value, shared: &mut Map<String, Value>) -> Value {
    let mut v2 = v3.as_object().cloned().unwrap_or_default();
    let mut parameters = parameters(&v3["parameters"], shared);
    let mut consumes = json!(["*/*"]);
    if let Some(body) = v2.remove("requestBody") {
        parameters.insert(0, body_parameter(&body));
        consumes = entries(&body["content"])
            .map(|(media, _)| Value::from(media.as_str()))
            .collect();
    }
    v2.remove("parameters");
    if !parameters.is_empty() {
        v2.insert("parameters".to_owned(), parameters.into());
    }
    let ok = &v3["responses"]["200"]["content"];
    v2.insert("schemes".to_owned(), json!(["https"]));
    v2.insert("consumes".to_owned(), consumes);
    v2.insert(
        "produces".to_owned(),
        entries(ok)
            .map(|(media, _)| Value::from(media.as_str()))
            .collect(),
    );
    let responses: Map<String, Value> = entries(&v3["responses"])
        .map(|(code, one)| (code.clone(), response(one)))
        .collect();
    v2.insert("responses".to_owned(), responses.into());
    v2.into()
}

fn body_parameter(body: &Value) -> Value {
    let schema = first_schema(&body["content"]).unwrap_or_else(|| json!({}));
    match body["required"] == true {
        true => json!({"in": "body", "name": "body", "required": true, "schema": schema}),
        false => json!({"in": "body", "name": "body", "schema": schema}),
    }
}

fn response(v3: &Value) -> Value {
    match first_schema(&v3["content"]) {
        Some(schema) => json!({"description": v3["description"], "schema": schema}),
        None => json!({"description": v3["description"]}),
    }
}

/// All media types of a response have the same schema.
fn first_schema(content: &Value) -> Option<Value> {
    entries(content).next().map(|(_, media)| schema(&media["schema"]))
}

/// Converts parameters. Those that are the same everywhere are written once and referenced.
fn parameters(v3: &Value, shared: &mut Map<String, Value>) -> Vec<Value> {
    let parameters = v3.as_array().into_iter().flatten();
    parameters.map(|one| share(parameter(one), shared)).collect()
}

fn share(parameter: Value, shared: &mut Map<String, Value>) -> Value {
    let text = |key: &str| parameter[key].as_str().unwrap_or_default();
    let name = format!("{}-{}", text("name"), text("in"));
    let existing = shared.entry(name.clone()).or_insert_with(|| parameter.clone());
    match *existing == parameter {
        true => json!({"$ref": format!("#/parameters/{name}")}),
        false => parameter,
    }
}

fn parameter(v3: &Value) -> Value {
    let mut v2 = Map::new();
    for (key, value) in entries(v3) {
        match key.as_str() {
            "schema" => v2.extend(entries(value).map(|(key, value)| (key.clone(), value.clone()))),
            _ => {
                v2.insert(key.clone(), value.clone());
            }
        }
    }
    v2.into()
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}
