//! Descriptions of built-in types and their fields, as `kubectl explain` shows them.
//!
//! The build script extracts them from the source of a dependency, and the binary embeds them. They are not read before a
//! client requests OpenAPI, so until then they take no memory. The fields that every object has are described in our own
//! words where the table does not describe them.

use std::collections::HashMap;

use serde_json::{Map, Value};
use setpoint_schema::openapi::{OBJECT_META, add_description, descriptions};

/// Texts, separated by [`SEPARATOR`]; after [`SECTION`] the types. A type is a line with its name, and a line for each
/// field with its name and the index of its text; the description of the type itself has no field name.
const TABLE: &str = include_str!(concat!(env!("OUT_DIR"), "/descriptions.txt"));

const SEPARATOR: char = '\u{1f}';
const SECTION: char = '\u{1e}';

/// The descriptions of types, by their published name; of each the texts by field.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    types: HashMap<&'static str, Vec<(&'static str, &'static str)>>,
}

impl Descriptions {
    pub(super) fn builtin() -> Self {
        Self::parse(TABLE)
    }

    fn parse(table: &'static str) -> Self {
        let (texts, types) = table.split_once(SECTION).unwrap_or_default();
        let texts: Vec<&str> = texts.split(SEPARATOR).collect();
        let field = |line: &'static str| {
            let (name, index) = line.split_once(' ')?;
            Some((name, *texts.get(index.parse::<usize>().ok()?)?))
        };
        let described = types.split(SEPARATOR).filter_map(|described| {
            let (name, fields) = described.split_once('\n')?;
            Some((name, fields.lines().filter_map(field).collect()))
        });
        Self {
            types: described.collect(),
        }
    }

    /// Describes the schemas of an OpenAPI document and their properties, where they are not described yet.
    pub(super) fn add_to(&self, schemas: &mut Map<String, Value>) {
        for (name, schema) in schemas {
            let Value::Object(schema) = schema else {
                continue;
            };
            for (field, text) in self.types.get(name.as_str()).into_iter().flatten() {
                describe(schema, field, text);
            }
            if name == OBJECT_META {
                describe(schema, "creationTimestamp", descriptions::CREATION_TIMESTAMP);
            }
            if schema.contains_key("x-kubernetes-group-version-kind") {
                describe_object_fields(schema);
            }
        }
    }
}

/// Describes the fields that every object or list has.
fn describe_object_fields(schema: &mut Map<String, Value>) {
    let properties = schema.get("properties");
    let is_list = properties.is_some_and(|properties| properties.get("items").is_some());
    let metadata = match is_list {
        true => descriptions::LIST_METADATA,
        false => descriptions::METADATA,
    };
    describe(schema, "apiVersion", descriptions::API_VERSION);
    describe(schema, "kind", descriptions::KIND);
    describe(schema, "metadata", metadata);
}

/// Describes a property, or with an empty name the schema itself.
fn describe(schema: &mut Map<String, Value>, field: &str, text: &str) {
    let described = match field {
        "" => Some(schema),
        field => schema
            .get_mut("properties")
            .and_then(|properties| properties.get_mut(field)?.as_object_mut()),
    };
    if let Some(described) = described {
        add_description(described, text);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(table: &'static str, name: &str, schema: Value, expected: Value) {
        let mut schemas: Map<String, Value> = [(name.to_owned(), schema)].into_iter().collect();
        Descriptions::parse(table).add_to(&mut schemas);
        assert_eq!(schemas[name], expected);
    }

    #[test]
    fn a_type_and_its_fields_are_described_once() {
        check(
            "A type.\u{1f}A field.\nTwo lines.\u{1e}T\n 0\nf 1\ng 1\u{1f}U\n 1",
            "T",
            json!({"properties": {"f": {"type": "string"}, "g": {"description": "Its own."}, "h": {}}}),
            json!({
                "description": "A type.",
                "properties": {
                    "f": {"description": "A field.\nTwo lines.", "type": "string"},
                    "g": {"description": "Its own."},
                    "h": {},
                },
            }),
        );
    }

    #[test]
    fn the_fields_of_every_object_are_described_without_a_table() {
        let mark = json!([{"group": "", "kind": "Pod", "version": "v1"}]);
        check(
            "",
            "Pod",
            json!({"properties": {"kind": {}, "metadata": {}}, "x-kubernetes-group-version-kind": mark}),
            json!({
                "properties": {
                    "kind": {"description": descriptions::KIND},
                    "metadata": {"description": descriptions::METADATA},
                },
                "x-kubernetes-group-version-kind": mark,
            }),
        );
        check(
            "",
            OBJECT_META,
            json!({"properties": {"creationTimestamp": {}}}),
            json!({"properties": {"creationTimestamp": {"description": descriptions::CREATION_TIMESTAMP}}}),
        );
    }

    #[test]
    fn every_field_of_a_pod_is_described() {
        let builtin = Descriptions::builtin();
        let pod = &builtin.types["io.k8s.api.core.v1.Pod"];
        let fields: Vec<&str> = pod.iter().map(|(field, _)| *field).collect();
        assert_eq!(fields, ["", "apiVersion", "kind", "metadata", "spec", "status"]);
        assert!(pod.iter().all(|(_, text)| text.len() > 20), "{pod:?}");
        assert!(builtin.types.len() > 500, "{}", builtin.types.len());
    }
}
