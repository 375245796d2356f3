//! What tools look for in the documents.

use super::*;

fn core() -> Value {
    third_of(&Kinds::builtin(), "", "v1")
}

/// kubectl looks here to learn whether the server checks fields itself.
#[test]
fn every_patch_takes_field_validation() {
    let document = core();
    let mut patches = 0;
    for (path, entry) in document["paths"].as_object().unwrap() {
        let Some(patch) = entry.get("patch") else { continue };
        let names: Vec<&str> = patch["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        assert!(names.contains(&"fieldValidation"), "{path}");
        assert!(
            patch["x-kubernetes-group-version-kind"]["kind"].is_string(),
            "{path}"
        );
        patches += 1;
    }
    assert!(patches > 5, "{patches}");
}

#[test]
fn paths_follow_the_scope_of_the_kind() {
    let document = core();
    for path in [
        "/api/v1/namespaces/{namespace}/pods/{name}",
        "/api/v1/pods",
        "/api/v1/nodes/{name}",
        "/api/v1/namespaces/{name}",
    ] {
        assert!(document["paths"][path].is_object(), "{path}");
    }
    assert!(document["paths"]["/api/v1/namespaces/{namespace}/nodes"].is_null());
    assert!(document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/status"]["put"].is_object());
}

#[test]
fn every_reference_leads_somewhere() {
    let document = core();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let text = document.to_string();
    for reference in text.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.get(name).is_some_and(Value::is_object), "{name}");
    }
}

#[test]
fn a_schema_says_how_lists_are_merged() {
    let document = core();
    let pod = &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"];
    let containers = &pod["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-list-type"], "map");
    assert_eq!(pod["required"], json!(["containers"]));
}

#[test]
fn a_kind_is_marked_with_its_name() {
    let document = core();
    let mark =
        &document["components"]["schemas"]["io.k8s.api.core.v1.Pod"]["x-kubernetes-group-version-kind"];
    assert_eq!(*mark, json!([{"group": "", "kind": "Pod", "version": "v1"}]));
}

#[test]
fn the_second_version_has_everything_in_one_document() {
    let document: Value = serde_json::from_slice(&second(&Kinds::builtin()).json).unwrap();
    assert!(document["definitions"]["io.k8s.api.apps.v1.ReplicaSet"].is_object());
    assert!(document["definitions"]["io.k8s.api.core.v1.Pod"].is_object());
    assert!(!document.to_string().contains("#/components/"));
}
