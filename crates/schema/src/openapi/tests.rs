//! The schemas of a few types that together use every feature.

use super::*;

/// The schemas of the OpenAPI document of a group and version with one kind.
fn schemas(group: &str, version: &str, kind: &str) -> Map<String, Value> {
    let mut schemas = Schemas::new(group, version);
    schemas.reference_to(group, version, kind).unwrap();
    schemas.into_map()
}

#[track_caller]
fn check(name: &str, property: &str, expected: Value) {
    let schemas = schemas("", "v1", "Pod");
    assert_eq!(
        schemas[name]["properties"][property], expected,
        "{name} {property}"
    );
}

const SPEC: &str = "io.k8s.api.core.v1.PodSpec";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

#[test]
fn a_list_has_its_merge_extensions() {
    check(
        SPEC,
        "containers",
        json!({
            "type": "array",
            "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "name",
        }),
    );
}

#[test]
fn no_keyword_is_beside_a_reference() {
    check(
        META,
        "creationTimestamp",
        json!({"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Time"}]}),
    );
    check(
        "io.k8s.api.core.v1.Container",
        "resources",
        json!({
            "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.ResourceRequirements"}],
            "default": {},
        }),
    );
}

#[test]
fn an_enum_lists_its_values_in_order() {
    check(
        SPEC,
        "restartPolicy",
        json!({"type": "string", "enum": ["Always", "Never", "OnFailure"]}),
    );
}

#[test]
fn types_that_are_not_objects_have_a_name() {
    let schemas = schemas("", "v1", "Pod");
    assert_eq!(
        schemas["io.k8s.apimachinery.pkg.api.resource.Quantity"],
        json!({"oneOf": [{"type": "string"}, {"type": "number"}]})
    );
    assert_eq!(
        schemas["io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"],
        json!({"type": "object"})
    );
}

#[test]
fn a_kind_of_every_group_is_listed_with_the_group_of_the_schemas() {
    let mut schemas = Schemas::new("apps", "v1");
    schemas.reference_to("", "v1", "DeleteOptions").unwrap();
    let marks = &schemas.into_map()["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]["x-kubernetes-group-version-kind"];
    assert_eq!(
        *marks,
        json!([
            {"group": "", "kind": "DeleteOptions", "version": "v1"},
            {"group": "apps", "kind": "DeleteOptions", "version": "v1"},
        ])
    );
}

#[test]
fn a_schema_that_refers_to_itself_is_written_once() {
    let schemas = schemas("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let own = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    assert_eq!(
        schemas[own]["properties"]["not"],
        json!({"allOf": [{"$ref": format!("#/components/schemas/{own}")}]})
    );
    assert!(schemas.values().all(Value::is_object));
}
