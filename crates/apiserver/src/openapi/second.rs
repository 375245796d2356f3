//! Version 2: everything in one document, written from the documents of version 3.
//!
//! The older version knows no choice of schemas, keeps media types beside the answer instead of around it, and writes
//! what may stand beside a reference next to it. Defaults are left out, as everywhere.

use serde_json::{Map, Value, json};
use setpoint_schema::openapi::SCHEMAS;

use super::third::{self, Published};

/// How a reference to a schema starts.
const DEFINITIONS: &str = "#/definitions/";

/// Puts documents of version 3 together.
pub(super) fn from_third(documents: &[Published]) -> Value {
    let (mut paths, mut definitions, mut parameters) = (Map::new(), Map::new(), Map::new());
    for (_, document) in documents {
        for (path, item) in entries(&document["paths"]) {
            paths.insert(path.clone(), path_item(item, &mut parameters));
        }
        for (name, schema) in entries(&document["components"]["schemas"]) {
            let schema = self::schema(schema);
            match definitions.get_mut(name) {
                Some(known) => add_marks(known, &schema),
                None => {
                    definitions.insert(name.clone(), schema);
                }
            }
        }
    }
    json!({
        "swagger": "2.0",
        "info": third::info(),
        "paths": paths,
        "definitions": definitions,
        "parameters": parameters,
        "securityDefinitions": {"BearerToken": third::bearer()},
        "security": [{"BearerToken": []}],
    })
}

/// A schema that several documents have is marked with the kinds of all.
fn add_marks(known: &mut Value, other: &Value) {
    const MARKS: &str = "x-kubernetes-group-version-kind";
    let Some(Value::Array(marks)) = known.get_mut(MARKS) else {
        return;
    };
    for mark in other[MARKS].as_array().into_iter().flatten() {
        if !marks.contains(mark) {
            marks.push(mark.clone());
        }
    }
}

fn schema(third: &Value) -> Value {
    let mut second = Map::new();
    for (key, value) in entries(third) {
        match key.as_str() {
            // What the second version has no words for.
            "default" | "anyOf" | "not" | "nullable" => {}
            "$ref" => {
                let place = value
                    .as_str()
                    .unwrap_or_default()
                    .replacen(SCHEMAS, DEFINITIONS, 1);
                second.insert(key.clone(), place.into());
            }
            "allOf" => {
                for (key, value) in value
                    .as_array()
                    .into_iter()
                    .flatten()
                    .flat_map(|one| schema(one).as_object().cloned().unwrap_or_default())
                {
                    second.insert(key, value);
                }
            }
            "oneOf" if third.get("type").is_some() => {}
            "oneOf" => {
                second.insert("type".to_owned(), "string".into());
            }
            "properties" => {
                let properties: Map<String, Value> = entries(value)
                    .map(|(name, value)| (name.clone(), schema(value)))
                    .collect();
                second.insert(key.clone(), properties.into());
            }
            "items" | "additionalProperties" => {
                second.insert(key.clone(), schema(value));
            }
            _ => {
                second.insert(key.clone(), value.clone());
            }
        }
    }
    second.into()
}

fn path_item(third: &Value, shared: &mut Map<String, Value>) -> Value {
    let mut second = Map::new();
    for (key, value) in entries(third) {
        let converted = match key.as_str() {
            "parameters" => parameters(value, shared).into(),
            _ => operation(value, shared),
        };
        second.insert(key.clone(), converted);
    }
    second.into()
}

fn operation(third: &Value, shared: &mut Map<String, Value>) -> Value {
    let mut second = third.as_object().cloned().unwrap_or_default();
    let mut parameters = parameters(&third["parameters"], shared);
    let mut consumes = json!(["*/*"]);
    if let Some(body) = second.remove("requestBody") {
        parameters.insert(0, body_parameter(&body));
        consumes = entries(&body["content"])
            .map(|(media, _)| Value::from(media.as_str()))
            .collect();
    }
    second.remove("parameters");
    if !parameters.is_empty() {
        second.insert("parameters".to_owned(), parameters.into());
    }
    let ok = &third["responses"]["200"]["content"];
    second.insert("schemes".to_owned(), json!(["https"]));
    second.insert("consumes".to_owned(), consumes);
    second.insert(
        "produces".to_owned(),
        entries(ok)
            .map(|(media, _)| Value::from(media.as_str()))
            .collect(),
    );
    let responses: Map<String, Value> = entries(&third["responses"])
        .map(|(code, one)| (code.clone(), response(one)))
        .collect();
    second.insert("responses".to_owned(), responses.into());
    second.into()
}

fn body_parameter(body: &Value) -> Value {
    let schema = first_schema(&body["content"]).unwrap_or_else(|| json!({}));
    match body["required"] == true {
        true => json!({"in": "body", "name": "body", "required": true, "schema": schema}),
        false => json!({"in": "body", "name": "body", "schema": schema}),
    }
}

fn response(third: &Value) -> Value {
    match first_schema(&third["content"]) {
        Some(schema) => json!({"description": third["description"], "schema": schema}),
        None => json!({"description": third["description"]}),
    }
}

/// All media types of an answer have the same schema.
fn first_schema(content: &Value) -> Option<Value> {
    entries(content).next().map(|(_, media)| schema(&media["schema"]))
}

/// Parameters that are the same everywhere are written once and referred to.
fn parameters(third: &Value, shared: &mut Map<String, Value>) -> Vec<Value> {
    let listed = third.as_array().into_iter().flatten();
    listed.map(|one| share(parameter(one), shared)).collect()
}

fn share(parameter: Value, shared: &mut Map<String, Value>) -> Value {
    let text = |key: &str| parameter[key].as_str().unwrap_or_default();
    let name = format!("{}-{}", text("name"), text("in"));
    let known = shared.entry(name.clone()).or_insert_with(|| parameter.clone());
    match *known == parameter {
        true => json!({"$ref": format!("#/parameters/{name}")}),
        false => parameter,
    }
}

fn parameter(third: &Value) -> Value {
    let mut second = Map::new();
    for (key, value) in entries(third) {
        match key.as_str() {
            "schema" => second.extend(entries(value).map(|(key, value)| (key.clone(), value.clone()))),
            _ => {
                second.insert(key.clone(), value.clone());
            }
        }
    }
    second.into()
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}
