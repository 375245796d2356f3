//! Properties of the OpenAPI documents that tools depend on.

use super::*;

fn core() -> Value {
    v3::group_version(&setpoint_kinds::builtin(), "", "v1")
}

/// kubectl looks here to learn whether the server checks fields itself.
#[test]
fn every_patch_takes_field_validation() {
    let document = core();
    let mut patches = 0;
    for (path, entry) in document["paths"].as_object().unwrap() {
        let Some(patch) = entry
            .get("patch")
            .filter(|one| one["x-kubernetes-action"] == "patch")
        else {
            continue;
        };
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
fn every_reference_resolves() {
    let document = core();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let text = document.to_string();
    for reference in text.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.get(name).is_some_and(Value::is_object), "{name}");
    }
}

#[test]
fn a_schema_has_the_merge_keys_of_lists() {
    let document = core();
    let pod = &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"];
    let containers = &pod["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-list-type"], "map");
    assert_eq!(pod["required"], json!(["containers"]));
}

#[test]
fn a_schema_has_its_group_version_kind() {
    let document = core();
    let kinds =
        &document["components"]["schemas"]["io.k8s.api.core.v1.Pod"]["x-kubernetes-group-version-kind"];
    assert_eq!(*kinds, json!([{"group": "", "kind": "Pod", "version": "v1"}]));
}

#[test]
fn v2_has_everything_in_one_document() {
    let document = v2::from_v3(&v3::all(&setpoint_kinds::builtin()));
    assert!(document["definitions"]["io.k8s.api.apps.v1.ReplicaSet"].is_object());
    assert!(document["definitions"]["io.k8s.api.core.v1.Pod"].is_object());
    assert!(!document.to_string().contains("#/components/"));
}

#[test]
fn v2_keeps_the_siblings_of_a_reference() {
    let document = v2::from_v3(&v3::all(&setpoint_kinds::builtin()));
    let pod = &document["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"];
    assert_eq!(*pod, json!({"$ref": "#/definitions/io.k8s.api.core.v1.PodSpec"}));
    let quantity = &document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!(*quantity, json!({"type": "string"}));
}

#[test]
fn v2_has_the_body_as_a_parameter() {
    let document = v2::from_v3(&v3::all(&setpoint_kinds::builtin()));
    let create = &document["paths"]["/api/v1/namespaces/{namespace}/pods"]["post"];
    assert_eq!(
        create["parameters"][0],
        json!({
            "in": "body",
            "name": "body",
            "required": true,
            "schema": {"$ref": "#/definitions/io.k8s.api.core.v1.Pod"},
        })
    );
    assert_eq!(
        create["parameters"][1],
        json!({"$ref": "#/parameters/dryRun-query"})
    );
    assert_eq!(create["operationId"], "createCoreV1NamespacedPod");
    assert_eq!(create["tags"], json!(["core_v1"]));
}

#[test]
fn parameters_of_all_operations_are_the_paths() {
    let path = &core()["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"];
    let names: Vec<&str> = path["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["name", "namespace", "pretty"]);
    assert!(path["get"]["parameters"].is_null());
}
