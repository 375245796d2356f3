//! Schemas as they are published, row by row.

use std::sync::Arc;

use crate::Kind;
use crate::custom::{StoredCrd, kinds_of};

use super::*;

const REFERENCE_V2: &str = "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const REFERENCE_V3: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

fn kind(schema: &Value) -> Arc<dyn Kind> {
    let crd = json!({"spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{
            "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            "selectableFields": [{"jsonPath": ".spec.color"}],
        }],
    }});
    let source = Arc::new(StoredCrd::new(&crd.to_string().into()));
    kinds_of(&source).remove(0)
}

/// The published schema of the field `f` of an object.
#[track_caller]
fn check(version: OpenApiVersion, field: Value, expected: Value) {
    let schema = json!({"type": "object", "properties": {"f": field}});
    let (_, published) = kind(&schema).openapi_schema(version).unwrap();
    assert_eq!(published["properties"]["f"], expected, "{version:?} {field}");
}

#[track_caller]
fn check_v2(field: Value, expected: Value) {
    check(OpenApiVersion::V2, field, expected);
}

#[track_caller]
fn check_v3(field: Value, expected: Value) {
    check(OpenApiVersion::V3, field, expected);
}

/// The schema that `kubectl explain` reads.
#[test]
fn a_schema_is_published_with_the_fields_of_every_object() {
    let schema =
        json!({"type": "object", "description": "A thing.", "properties": {"spec": {"type": "object"}}});
    for (version, metadata) in [
        (
            OpenApiVersion::V2,
            json!({"$ref": REFERENCE_V2, "description": descriptions::METADATA}),
        ),
        (
            OpenApiVersion::V3,
            json!({"allOf": [{"$ref": REFERENCE_V3}], "description": descriptions::METADATA}),
        ),
    ] {
        let (name, published) = kind(&schema).openapi_schema(version).unwrap();
        assert_eq!(name, "com.example.v1.Thing");
        let expected = json!({
            "type": "object",
            "description": "A thing.",
            "properties": {
                "spec": {"type": "object"},
                "apiVersion": {"description": descriptions::API_VERSION, "type": "string"},
                "kind": {"description": descriptions::KIND, "type": "string"},
                "metadata": metadata,
            },
            "x-kubernetes-group-version-kind": [{"group": "example.com", "kind": "Thing", "version": "v1"}],
            "x-kubernetes-selectable-fields": [{"fieldPath": "spec.color"}],
        });
        assert_eq!(published, expected, "{version:?}");
    }
}

#[test]
fn an_open_root_is_published_without_properties_in_v2() {
    let schema = json!({
        "type": "object", "description": "Anything.", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"spec": {"type": "object"}},
    });
    let (_, published) = kind(&schema).openapi_schema(OpenApiVersion::V2).unwrap();
    let keys: Vec<&String> = published.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "type",
            "x-kubernetes-group-version-kind",
            "x-kubernetes-selectable-fields"
        ]
    );
    let (_, published) = kind(&schema).openapi_schema(OpenApiVersion::V3).unwrap();
    assert_eq!(published["properties"]["spec"], json!({"type": "object"}));
}

#[test]
fn a_missing_schema_is_published_as_any_object() {
    for version in [OpenApiVersion::V2, OpenApiVersion::V3] {
        let (_, published) = kind(&Value::Null).openapi_schema(version).unwrap();
        assert_eq!(
            (&published["type"], &published["properties"]),
            (&json!("object"), &Value::Null)
        );
    }
}

#[test]
fn open_fields_have_no_type_in_v2() {
    check_v2(
        json!({"type": "object", "description": "d", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"a": {"type": "string"}}}),
        json!({"description": "d", "x-kubernetes-preserve-unknown-fields": true}),
    );
    check_v2(
        json!({"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "string"}}),
        json!({"x-kubernetes-preserve-unknown-fields": true}),
    );
}

#[test]
fn nullable_fields_have_no_type_in_v2_and_are_not_required() {
    let object = json!({"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}});
    check_v2(object.clone(), json!({}));
    check_v2(
        json!({"type": "object", "required": ["n", "s"], "properties": {"n": object, "s": {"type": "string"}}}),
        json!({"type": "object", "required": ["s"], "properties": {"n": {}, "s": {"type": "string"}}}),
    );
    check_v2(
        json!({"type": "object", "required": ["a"], "additionalProperties": object}),
        json!({"type": "object", "additionalProperties": {}}),
    );
    check_v2(
        json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "array", "nullable": true, "items": {"type": "string"}}}}),
        json!({"type": "object", "properties": {"n": {}}}),
    );
    check_v3(object.clone(), object);
}

#[test]
fn junctors_and_defaults_are_only_in_v3() {
    let field = json!({"type": "string", "default": "a", "oneOf": [{"minLength": 1}], "allOf": [{"maxLength": 3}], "not": {"pattern": "x"}});
    check_v2(field.clone(), json!({"type": "string"}));
    check_v3(field.clone(), field);
}

#[test]
fn an_int_or_string_names_both_types_in_v3() {
    let types = json!([{"type": "integer"}, {"type": "string"}]);
    let declared = json!({"anyOf": types, "x-kubernetes-int-or-string": true});
    check_v3(json!({"x-kubernetes-int-or-string": true}), declared.clone());
    check_v3(declared.clone(), declared.clone());
    check_v2(declared, json!({"x-kubernetes-int-or-string": true}));
    let in_first = json!({"allOf": [{"anyOf": types}, {"pattern": "a"}], "x-kubernetes-int-or-string": true});
    check_v3(in_first.clone(), in_first);
    check_v3(
        json!({"anyOf": [{"minLength": 1}], "x-kubernetes-int-or-string": true}),
        json!({"anyOf": [{"minLength": 1}], "allOf": [{"anyOf": types}], "x-kubernetes-int-or-string": true}),
    );
}

#[test]
fn an_embedded_object_has_the_fields_of_every_object() {
    let embedded = json!({"type": "array", "items": {
        "type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}},
    }});
    let object_fields = |metadata: Value| {
        json!({
            "spec": {"type": "object"},
            "apiVersion": {"description": descriptions::API_VERSION, "type": "string"},
            "kind": {"description": descriptions::KIND, "type": "string"},
            "metadata": metadata,
        })
    };
    let published = |metadata: Value| {
        json!({"type": "array", "items": {
            "type": "object", "x-kubernetes-embedded-resource": true, "properties": object_fields(metadata),
            "required": ["kind", "apiVersion"],
        }})
    };
    check_v2(
        embedded.clone(),
        published(json!({"$ref": REFERENCE_V2, "description": descriptions::METADATA})),
    );
    check_v3(
        embedded,
        published(json!({"allOf": [{"$ref": REFERENCE_V3}], "description": descriptions::METADATA})),
    );
    let open = json!({"x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    check_v2(
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
        open,
    );
}
