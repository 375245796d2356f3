//! Properties of the OpenAPI documents that tools depend on.

use std::sync::LazyLock;

use setpoint_strategy::Kinds;

use super::*;
use crate::discovery::tests::{custom_kinds, with_custom};

/// A v3 OpenAPI document of these kinds.
fn v3_document(kinds: &Kinds, path: &str) -> Option<Value> {
    let source = v3::sources(kinds)
        .into_iter()
        .find(|source| source.path == path)?;
    Some(source.build(&Descriptions::builtin()))
}

fn core() -> Value {
    v3_document(&setpoint_kinds::builtin(), "api/v1").unwrap()
}

/// The v2 OpenAPI document of the built-in kinds.
fn v2_document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(|| v2::build(&setpoint_kinds::builtin()));
    &DOCUMENT
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
    let document = v2_document();
    assert!(document["definitions"]["io.k8s.api.apps.v1.ReplicaSet"].is_object());
    assert!(document["definitions"]["io.k8s.api.core.v1.Pod"].is_object());
    assert!(!document.to_string().contains("#/components/"));
}

#[test]
fn v2_keeps_the_siblings_of_a_reference() {
    let document = v2_document();
    let pod = &document["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"];
    assert_eq!(pod["$ref"], "#/definitions/io.k8s.api.core.v1.PodSpec");
    assert!(
        pod["description"].is_string() && pod["default"].is_null(),
        "{pod}"
    );
    let quantity = &document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!(quantity["type"], "string");
}

#[test]
fn v2_has_the_body_as_a_parameter() {
    let document = v2_document();
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

/// kubectl's own test suite looks for these.
#[test]
fn lists_and_their_parameters_are_described() {
    let text = v2_document().to_string();
    for sentence in [
        "list of returned",
        "List of services",
        "Watch for changes to the described resources",
    ] {
        assert!(text.contains(sentence), "{sentence}");
    }
}

#[test]
fn the_documents_of_a_custom_group_are_those_of_its_versions() {
    let kinds = with_custom(&[("example.com", &["v1"])]).kinds;
    assert_eq!(v3_document(&kinds, "apis/example.com"), None);
    let document = v3_document(&kinds, "apis/example.com/v1").unwrap();
    let mut paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    paths.sort();
    let root = "/apis/example.com/v1";
    assert_eq!(
        paths,
        [
            &format!("{root}/namespaces/{{namespace}}/widgets"),
            &format!("{root}/namespaces/{{namespace}}/widgets/{{name}}"),
            &format!("{root}/widgets"),
        ]
    );
    assert_eq!(document["info"]["title"], "Kubernetes CRD Swagger");
    assert!(document["components"]["securitySchemes"].is_null());
}

#[test]
fn operations_on_custom_kinds_name_their_media_types_and_codes() {
    let kinds = with_custom(&[("example.com", &["v1"])]).kinds;
    let document = v3_document(&kinds, "apis/example.com/v1").unwrap();
    let root = "/apis/example.com/v1/namespaces/{namespace}/widgets";
    let (all, one) = (
        &document["paths"][root],
        &document["paths"][format!("{root}/{{name}}")],
    );
    let keys = |value: &Value| -> Vec<String> {
        let members = value.as_object().into_iter().flat_map(Map::keys);
        members.cloned().collect()
    };
    let (json, yaml) = ("application/json", "application/yaml");
    assert_eq!(keys(&all["post"]["requestBody"]["content"]), [json, yaml]);
    assert_eq!(keys(&one["delete"]["requestBody"]["content"]), [json, yaml]);
    assert_eq!(keys(&all["get"]["responses"]["200"]["content"]), [json, yaml]);
    assert!(all["delete"]["requestBody"].is_null());
    assert_eq!(keys(&one["patch"]["responses"]), ["200", "401"]);
    assert_eq!(keys(&one["put"]["responses"]), ["200", "201", "401"]);
    assert_eq!(one["get"]["parameters"][0]["name"], "resourceVersion");
}

#[test]
fn an_open_custom_kind_has_no_properties_in_v2() {
    let crd = json!({"spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        }}}],
    }});
    let kinds: Kinds = custom_kinds(&crd).into_iter().collect();
    let widget = &v2::build(&kinds)["definitions"]["com.example.v1.Widget"];
    assert_eq!(
        *widget,
        json!({
            "type": "object",
            "x-kubernetes-group-version-kind": [{"group": "example.com", "kind": "Widget", "version": "v1"}],
        })
    );
    let v3 = v3_document(&kinds, "apis/example.com/v1").unwrap();
    let widget = &v3["components"]["schemas"]["com.example.v1.Widget"];
    assert!(
        widget["properties"]["metadata"].is_object() && widget["description"].is_null(),
        "{widget}"
    );
}

#[test]
fn the_index_lists_the_documents_of_service_account_issuers() {
    let kinds = setpoint_kinds::builtin();
    let document = v3_document(&kinds, ".well-known/openid-configuration").unwrap();
    let get = &document["paths"]["/.well-known/openid-configuration/"]["get"];
    assert_eq!(get["tags"], json!(["WellKnown"]));
    let document = v3_document(&kinds, "openid/v1/jwks").unwrap();
    let content = &document["paths"]["/openid/v1/jwks/"]["get"]["responses"]["200"]["content"];
    assert!(content["application/jwk-set+json"].is_object());
}

#[test]
fn documents_of_unchanged_kinds_are_not_built_again() {
    let before = with_custom(&[("example.com", &["v1"])]);
    let documents = V3Document::all(&before, None);
    let mut kinds: Vec<_> = before.kinds.iter().cloned().collect();
    kinds.pop();
    kinds.extend(
        with_custom(&[("example.com", &["v1"])])
            .kinds
            .iter()
            .last()
            .cloned(),
    );
    let after = ServedApis {
        kinds: Arc::new(kinds.into_iter().collect()),
        ..before
    };
    let updated = V3Document::all(&after, Some(&documents));
    let built: Vec<&str> = updated
        .iter()
        .zip(&documents)
        .filter(|(new, old)| !Arc::ptr_eq(&new.document, &old.document))
        .map(|(new, _)| new.source.path.as_str())
        .collect();
    assert_eq!(built, ["apis/example.com/v1"]);
}

#[test]
fn a_document_is_stored_compressed() {
    let document = OpenApiDocument::new(&core(), &gnostic::V3);
    let json = compression::gunzip(&document.json);
    assert!(
        document.json.len() * 5 < json.len(),
        "{} of {}",
        document.json.len(),
        json.len()
    );
    assert_eq!(serde_json::from_slice::<Value>(&json).unwrap(), core());
    assert!(!compression::gunzip(&document.protobuf()).is_empty());
}
