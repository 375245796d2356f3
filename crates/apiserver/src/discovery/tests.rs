//! Discovery documents.

use std::sync::Arc;

use serde_json::{Value, json};
use setpoint_strategy::custom::StoredCrd;

use super::*;

/// The APIs of a server without aggregation.
fn local_apis() -> ServedApis {
    ServedApis {
        kinds: Arc::new(setpoint_kinds::builtin()),
        remote_groups: Arc::default(),
    }
}

fn value(document: &TaggedJson) -> Value {
    serde_json::from_slice(&document.json).unwrap()
}

fn legacy_value(path: &DiscoveryPath<'_>) -> Value {
    let json = legacy::json(&local_apis(), path, "127.0.0.1:6443".parse().unwrap());
    serde_json::from_slice(&json.unwrap().unwrap()).unwrap()
}

#[track_caller]
fn check_path(path: &str, expected: Option<DiscoveryPath<'_>>) {
    assert_eq!(parse(path), expected);
}

#[test]
fn discovery_has_five_kinds_of_paths() {
    check_path("/api", Some(DiscoveryPath::Core));
    check_path("/api/", Some(DiscoveryPath::Core));
    check_path(
        "/api/v1",
        Some(DiscoveryPath::Resources {
            group: "",
            version: "v1",
        }),
    );
    check_path("/apis", Some(DiscoveryPath::Groups));
    check_path("/apis/apps", Some(DiscoveryPath::Group("apps")));
    check_path(
        "/apis/apps/v1",
        Some(DiscoveryPath::Resources {
            group: "apps",
            version: "v1",
        }),
    );
    check_path("/version", None);
    check_path("//api", None);
}

#[test]
fn the_core_group_is_by_itself() {
    let core = value(&aggregated::core_group(&local_apis()));
    assert_eq!(
        (&core["kind"], &core["apiVersion"]),
        (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2"))
    );
    assert_eq!(core["items"].as_array().unwrap().len(), 1);
    assert_eq!(core["items"][0]["metadata"], json!({}));
    assert_eq!(core["items"][0]["versions"][0]["freshness"], "Current");
}

#[test]
fn a_resource_is_described_as_clients_expect() {
    let core = value(&aggregated::core_group(&local_apis()));
    let resources = core["items"][0]["versions"][0]["resources"].as_array().unwrap();
    let maps = resources
        .iter()
        .find(|resource| resource["resource"] == "configmaps")
        .unwrap();
    assert_eq!(
        *maps,
        json!({
            "resource": "configmaps",
            "responseKind": {"group": "", "version": "", "kind": "ConfigMap"},
            "scope": "Namespaced",
            "singularResource": "configmap",
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "shortNames": ["cm"],
        })
    );
    let names: Vec<&str> = resources
        .iter()
        .map(|resource| resource["resource"].as_str().unwrap())
        .collect();
    assert!(names.is_sorted(), "{names:?}");
}

#[test]
fn every_other_group_is_in_the_document_of_named_groups() {
    let groups = value(&aggregated::named_groups(&local_apis()));
    let names: Vec<&str> = groups["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["metadata"]["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"apps") && names.contains(&"coordination.k8s.io"),
        "{names:?}"
    );
    assert!(!names.contains(&""));
}

#[test]
fn unaggregated_discovery_names_versions_and_groups() {
    assert_eq!(legacy_value(&DiscoveryPath::Core)["versions"], json!(["v1"]));
    assert_eq!(
        legacy_value(&DiscoveryPath::Group("apps")),
        json!({
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": "apps",
            "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
            "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
        })
    );
}

#[test]
fn resources_of_a_version_list_their_subresources() {
    let list = legacy_value(&DiscoveryPath::Resources {
        group: "apps",
        version: "v1",
    });
    let resources = list["resources"].as_array().unwrap();
    let set = resources
        .iter()
        .find(|resource| resource["name"] == "replicasets")
        .unwrap();
    assert_eq!(set["storageVersionHash"], "P1RzHs8/mWQ=");
    let status = resources
        .iter()
        .find(|resource| resource["name"] == "replicasets/status")
        .unwrap();
    assert_eq!(
        (&status["singularName"], &status["verbs"]),
        (&json!(""), &json!(["get", "patch", "update"]))
    );
}

#[test]
fn unknown_groups_and_versions_are_distinguished() {
    let document =
        |path: &DiscoveryPath<'_>| legacy::json(&local_apis(), path, "127.0.0.1:6443".parse().unwrap());
    assert_eq!(document(&DiscoveryPath::Group("bogus")).unwrap(), None);
    assert_eq!(
        document(&DiscoveryPath::Resources {
            group: "bogus",
            version: "v1"
        })
        .unwrap(),
        None
    );
    assert_eq!(
        document(&DiscoveryPath::Resources {
            group: "",
            version: "v2"
        })
        .unwrap_err()
        .code,
        404
    );
}

#[track_caller]
fn check_accept(accept: &str, expected: bool) {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, accept.parse().unwrap());
    assert_eq!(accepts_aggregated(&headers), expected, "{accept}");
}

#[test]
fn the_first_clause_that_can_be_served_decides() {
    let all = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    check_accept(all, true);
    check_accept(&format!("{all},application/json"), true);
    check_accept(
        &format!("{},{all},application/json", all.replace("v2", "v9")),
        true,
    );
    check_accept(&format!("application/json,{all}"), false);
    check_accept(
        "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList,application/json",
        false,
    );
    check_accept("*/*", false);
}

#[test]
fn an_unchanged_document_is_not_sent_again() {
    let document = aggregated::core_group(&local_apis());
    let mut headers = HeaderMap::new();
    assert_eq!(with_etag(&headers, &document).status(), 200);
    headers.insert(IF_NONE_MATCH, format!("\"{}\"", document.hash).parse().unwrap());
    assert_eq!(with_etag(&headers, &document).status(), 304);
}

/// The APIs of a server with a CRD for each of these groups and versions.
pub(crate) fn with_custom(served: &[(&str, &[&str])]) -> ServedApis {
    let crds = served.iter().flat_map(|(group, versions)| {
        let versions: Vec<Value> = versions
            .iter()
            .enumerate()
            .map(|(at, name)| {
                json!({
                    "name": name, "served": true, "storage": at == 0,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                })
            })
            .collect();
        let names = json!({"plural": "widgets", "kind": "Widget"});
        custom_kinds(
            &json!({"spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions}}),
        )
    });
    let builtin = setpoint_kinds::builtin();
    ServedApis {
        kinds: Arc::new(builtin.iter().cloned().chain(crds).collect()),
        remote_groups: Arc::default(),
    }
}

/// The kinds of a CRD.
pub(crate) fn custom_kinds(crd: &Value) -> Vec<Arc<dyn setpoint_strategy::Kind>> {
    let stored = StoredCrd::new(&crd.to_string().into());
    setpoint_strategy::custom::kinds_of(&Arc::new(stored))
}

#[test]
fn custom_groups_are_in_the_order_of_their_api_services() {
    let apis = with_custom(&[
        ("alpha.example.com", &["v1alpha1"]),
        ("beta.example.com", &["v1beta1", "v1"]),
        ("cert.example.com", &["v1"]),
        ("two.example.com", &["v2"]),
    ]);
    let json = legacy::json(&apis, &DiscoveryPath::Groups, "127.0.0.1:6443".parse().unwrap());
    let list: Value = serde_json::from_slice(&json.unwrap().unwrap()).unwrap();
    let names = |list: &Value, field: &str| -> Vec<String> {
        let groups = list[field].as_array().unwrap().iter();
        let name = |group: &Value| group.get("name").unwrap_or(&group["metadata"]["name"]).clone();
        let names = groups.map(|group| name(group).as_str().unwrap().to_owned());
        names.filter(|name| name.ends_with(".example.com")).collect()
    };
    let by_service = [
        "beta.example.com",
        "cert.example.com",
        "alpha.example.com",
        "two.example.com",
    ];
    assert_eq!(names(&list, "groups"), by_service);
    assert_eq!(list["groups"][0]["name"], "apiregistration.k8s.io");
    let by_name = [
        "alpha.example.com",
        "beta.example.com",
        "cert.example.com",
        "two.example.com",
    ];
    assert_eq!(names(&value(&aggregated::named_groups(&apis)), "items"), by_name);
}

#[test]
fn the_verbs_of_custom_resources_are_in_the_order_of_their_handler() {
    let apis = with_custom(&[("example.com", &["v1"])]);
    let path = DiscoveryPath::Resources {
        group: "example.com",
        version: "v1",
    };
    let json = legacy::json(&apis, &path, "127.0.0.1:6443".parse().unwrap());
    let list: Value = serde_json::from_slice(&json.unwrap().unwrap()).unwrap();
    assert_eq!(
        list["resources"][0]["verbs"],
        json!([
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "create",
            "update",
            "watch"
        ])
    );
}
