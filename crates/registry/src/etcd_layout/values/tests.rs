//! Tests of the values: golden objects of every kind, and the storage versions of kube-apiserver 1.37.

use bytes::Bytes;

use setpoint_reference::{Golden, golden};

use super::*;

const REVISION: Revision = Revision::new(4711);

fn layout() -> ValueLayout {
    ValueLayout::new(&setpoint_kinds::builtin())
}

/// The map's key of an object of the kind of a golden object, if the kind is stored.
fn map_key(layout: &ValueLayout, golden: &Golden) -> Option<String> {
    let (group, version, name) = golden.gvk();
    let api_version = setpoint_api::Gvk::new(group, version, name).api_version();
    let kind = layout.versions.get(&(api_version.to_string(), name.to_owned()))?;
    kind.info()
        .rules
        .resource
        .stored
        .then(|| format!("/registry/{}/a/b", kind.info().storage.group_resource()))
}

/// The put of a value of the map, as the registry makes it: with an empty resource version.
fn put(map_key: &str, json: &[u8]) -> Put {
    let json = std::str::from_utf8(json).unwrap();
    let version = format!(r#""resourceVersion":"{REVISION}""#);
    let at = json.find(&version).unwrap();
    let empty = json.replacen(&version, r#""resourceVersion":"""#, 1);
    Put {
        key: Bytes::copy_from_slice(map_key.as_bytes()),
        value: Bytes::from(empty),
        stamp: Some((at + r#""resourceVersion":""#.len()) as u32),
        ..Put::default()
    }
}

#[test]
fn every_stored_kind_survives_a_round_trip() {
    let layout = layout();
    let mut kinds = 0;
    for golden in golden() {
        let Some(map_key) = map_key(&layout, &golden) else {
            continue;
        };
        let decoded = layout.decode(map_key.as_bytes(), &golden.protobuf, REVISION);
        let json = decoded.unwrap_or_else(|error| panic!("{}: {error}", golden.name));
        let stored = layout.encode(&put(&map_key, &json)).unwrap();
        let again = layout.decode(map_key.as_bytes(), &stored, REVISION).unwrap();
        assert_eq!(
            String::from_utf8(again).unwrap(),
            String::from_utf8(json).unwrap(),
            "{}",
            golden.name
        );
        kinds += 1;
    }
    assert!(kinds >= 60, "only {kinds} kinds have golden objects");
}

#[test]
fn json_and_protobuf_of_an_object_decode_to_the_same_value() {
    let layout = layout();
    for golden in golden() {
        let Some(map_key) = map_key(&layout, &golden) else {
            continue;
        };
        let of_json = layout.decode(map_key.as_bytes(), &golden.json, REVISION).unwrap();
        let of_protobuf = layout
            .decode(map_key.as_bytes(), &golden.protobuf, REVISION)
            .unwrap();
        assert_eq!(
            String::from_utf8(of_json).unwrap(),
            String::from_utf8(of_protobuf).unwrap()
        );
    }
}

/// The type of the stored value of a kind, as it is in the etcd of kube-apiserver 1.37.
#[track_caller]
fn check_type(group: &str, version: &str, kind: &str, expected: &str) {
    let layout = layout();
    let golden = Golden::find(group, version, kind).unwrap();
    let map_key = map_key(&layout, &golden).unwrap();
    check_type_of(&map_key, &golden.protobuf, expected);
}

#[track_caller]
fn check_type_of(map_key: &str, value: &[u8], expected: &str) {
    let layout = layout();
    let json = layout.decode(map_key.as_bytes(), value, REVISION).unwrap();
    let stored = layout.encode(&put(map_key, &json)).unwrap();
    let described = match envelope::open(&stored) {
        Ok(opened) => format!(
            "protobuf {} {}",
            opened.type_meta.api_version, opened.type_meta.kind
        ),
        Err(_) => {
            let (type_meta, _) = decode_json(&stored).unwrap();
            format!("JSON {} {}", type_meta.api_version, type_meta.kind)
        }
    };
    assert_eq!(described, expected);
}

#[test]
fn values_have_upstreams_storage_version() {
    check_type("", "v1", "Pod", "protobuf v1 Pod");
    check_type("apps", "v1", "Deployment", "protobuf apps/v1 Deployment");
    check_type(
        "autoscaling",
        "v1",
        "HorizontalPodAutoscaler",
        "protobuf autoscaling/v2 HorizontalPodAutoscaler",
    );
    check_type("events.k8s.io", "v1", "Event", "protobuf v1 Event");
    check_type(
        "certificates.k8s.io",
        "v1",
        "ClusterTrustBundle",
        "protobuf certificates.k8s.io/v1beta1 ClusterTrustBundle",
    );
    check_type(
        "certificates.k8s.io",
        "v1",
        "PodCertificateRequest",
        "protobuf certificates.k8s.io/v1beta1 PodCertificateRequest",
    );
    check_type(
        "resource.k8s.io",
        "v1",
        "DeviceTaintRule",
        "protobuf resource.k8s.io/v1beta2 DeviceTaintRule",
    );
    check_type(
        "storagemigration.k8s.io",
        "v1",
        "StorageVersionMigration",
        "protobuf storagemigration.k8s.io/v1beta1 StorageVersionMigration",
    );
    check_type(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "JSON apiextensions.k8s.io/v1beta1 CustomResourceDefinition",
    );
    check_type_of(
        "/registry/apiservices.apiregistration.k8s.io/v1.apps",
        br#"{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1","metadata":{"name":"v1.apps"}}"#,
        "JSON apiregistration.k8s.io/v1 APIService",
    );
}

#[test]
fn a_value_has_no_resource_version() {
    let json = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b","namespace":"a","resourceVersion":"4711"},"data":{"k":"v"}}"#;
    let stored = layout().encode(&put("/registry/configmaps/a/b", json)).unwrap();
    let (_, tree) = decode_protobuf(&stored).unwrap();
    assert_eq!(tree.str_at(&["metadata", "resourceVersion"]), None);
    assert_eq!(tree.str_at(&["data", "k"]), Some("v"));
}

#[track_caller]
fn check_custom(stored: &str, json: &str) {
    let map_key = "/registry/gadgets.example.com/a/b";
    let decoded = layout().decode(map_key.as_bytes(), stored.as_bytes(), REVISION);
    assert_eq!(String::from_utf8(decoded.unwrap()).unwrap(), json);
    let encoded = layout().encode(&put(map_key, json.as_bytes())).unwrap();
    assert_eq!(String::from_utf8(encoded).unwrap(), stored);
}

#[test]
fn a_custom_resource_is_json_with_a_line_break() {
    check_custom(
        "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Gadget\",\"metadata\":{\"generation\":1,\"name\":\"b\",\"namespace\":\"a\",\"uid\":\"u\"},\"spec\":{\"size\":1.5}}\n",
        r#"{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"generation":1,"name":"b","namespace":"a","resourceVersion":"4711","uid":"u"},"spec":{"size":1.5}}"#,
    );
}

#[track_caller]
fn check_error(map_key: &str, value: &[u8], expected: &str) {
    let error = layout().decode(map_key.as_bytes(), value, REVISION).unwrap_err();
    assert_eq!(error, expected);
}

#[test]
fn a_value_that_is_no_object_of_the_resource_is_an_error() {
    let unknown = envelope::seal(&TypeMeta::new("apps/v7", "Deployment"), b"");
    check_error(
        "/registry/deployments.apps/a/b",
        &unknown,
        r#"no kind "Deployment" is registered for version "apps/v7""#,
    );
    let other = envelope::seal(&TypeMeta::new("v1", "Secret"), b"");
    check_error(
        "/registry/configmaps/a/b",
        &other,
        "v1, Kind=Secret is not the kind of the key",
    );
    check_error(
        "/registry/gadgets.example.com/a/b",
        br#"{"kind":"Gadget"}"#,
        "the object has no metadata",
    );
}
