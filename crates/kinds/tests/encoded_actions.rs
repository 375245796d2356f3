//! A Binding of a stored pod has the same result on its bytes as on its tree.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use setpoint_api::object::Header;
use setpoint_api::options::FieldValidation;
use setpoint_api::{Key, ResourceVersion, Stored, User};
use setpoint_schema::{CanonicalJson, Tree, to_tree};
use setpoint_strategy::{Action, Kind, RequestFacts, SubresourceKind, UpdateContext, meta};

/// Pods of the recordings that are valid and have no node yet; a change of them may change the number.
const RECORDED_PODS: usize = 100;

#[test]
fn a_binding_of_the_bytes_equals_that_of_the_tree() {
    let pod = pod_kind();
    let text = setpoint_reference::transcript("validation");
    let bodies = text.lines().filter_map(|line| {
        let case: Value = serde_json::from_str(line).unwrap();
        serde_json::from_str(case["steps"][0]["body"].as_str()?).ok()
    });
    let pods = bodies.filter(|body: &Value| body["kind"] == "Pod");
    let stored: Vec<Stored> = pods.filter_map(|body| create(&*pod, &body)).collect();
    let labels = json!({"labels": {"topology.kubernetes.io/zone": "a"}});
    let encoded = stored.iter().filter(|object| {
        check(&*pod, object, &binding(&json!({}))) && check(&*pod, object, &binding(&labels))
    });
    let encoded = encoded.count();
    assert!(encoded >= RECORDED_PODS, "{encoded} of {} pods", stored.len());
}

#[test]
fn what_a_binding_replaces_or_adds_besides_needs_the_tree() {
    let is_encoded = |pod: &Value, metadata: &Value| {
        let kind = pod_kind();
        let object = stored(&*kind, &tree_of(&*kind, pod));
        check(&*kind, &object, &binding(metadata))
    };
    let plain = pod(&json!({}), &json!({"phase": "Pending"}));
    assert!(is_encoded(&plain, &json!({})));
    assert!(is_encoded(
        &pod(&json!({}), &json!({"qosClass": "Burstable"})),
        &json!({})
    ));
    assert!(is_encoded(&plain, &json!({"labels": {"a": "b", "zone": "z"}})));
    assert!(is_encoded(
        &plain,
        &json!({"labels": {"app": "web", "zone": "z"}})
    ));
    assert!(!is_encoded(&plain, &json!({"labels": {"app": "other"}})));
    assert!(!is_encoded(&plain, &json!({"annotations": {"a": "b"}})));
    assert!(!is_encoded(
        &pod(&json!({"nodeName": "a"}), &json!({"phase": "Pending"})),
        &json!({})
    ));
    let conditions =
        json!([{"type": "PodScheduled", "status": "False"}, {"type": "Ready", "status": "False"}]);
    assert!(!is_encoded(
        &pod(&json!({}), &json!({"conditions": conditions})),
        &json!({})
    ));
    assert!(!is_encoded(
        &pod(&json!({}), &json!({"nominatedNodeName": "a"})),
        &json!({})
    ));
    assert!(is_encoded(&pod(&json!({}), &json!({})), &json!({})));
}

#[test]
fn a_bound_pod_is_not_nominated_to_a_node() {
    let kind = pod_kind();
    let nominated = pod(&json!({}), &json!({"nominatedNodeName": "a"}));
    let mut tree = tree_of(&*kind, &nominated);
    kind.apply_action(&mut tree, Action::Bind, &binding(&json!({})), &facts());
    assert_eq!(tree.str_at(&["status", "nominatedNodeName"]), None);
    assert!(tree.str_at(&["spec", "nodeName"]).is_some());
}

/// Binds the pod both ways. Returns whether its bytes were enough.
#[track_caller]
fn check(kind: &dyn Kind, object: &Stored, binding: &Tree) -> bool {
    let Some(encoded) = kind.apply_action_encoded(object, Action::Bind, binding, &facts()) else {
        return false;
    };
    let (expected, header) = bind_tree(kind, object, binding);
    assert_eq!(text(&encoded.0), text(&expected));
    assert_eq!(encoded.0, expected);
    assert_eq!(format!("{:?}", encoded.1), format!("{header:?}"));
    true
}

fn bind_tree(kind: &dyn Kind, object: &Stored, binding: &Tree) -> (CanonicalJson, Header) {
    let old = kind.decode_stored(object).unwrap();
    let mut tree = old.clone();
    kind.apply_action(&mut tree, Action::Bind, binding, &facts());
    let update = UpdateContext {
        old: &old,
        subresource: Some(SubresourceKind::Action(Action::Bind)),
        facts: &facts(),
    };
    kind.prepare_update(&mut tree, &update);
    let header = kind.header_of(object.key(), &tree).unwrap();
    (kind.write(&tree).unwrap(), header)
}

/// The pod as it is stored after a create; `None` if it is invalid or has a node.
fn create(kind: &dyn Kind, body: &Value) -> Option<Stored> {
    let decoded = kind.conform(to_tree(body).ok()?, FieldValidation::Ignore).ok()?;
    let mut tree = decoded.tree;
    kind.prepare_input(&mut tree).ok()?;
    kind.prepare_create(&mut tree, &facts());
    let has_node = tree.str_at(&["spec", "nodeName"]).is_some();
    (!has_node && !meta::name(&tree).is_empty()).then(|| stored(kind, &tree))
}

fn tree_of(kind: &dyn Kind, object: &Value) -> Tree {
    let mut tree = to_tree(object).unwrap();
    kind.prepare_input(&mut tree).unwrap();
    tree
}

fn stored(kind: &dyn Kind, tree: &Tree) -> Stored {
    let written = kind.write(tree).unwrap();
    let (head, tail) = written
        .bytes
        .split_at(written.resource_version_offset.unwrap() as usize);
    let json = Bytes::from([head, b"1234", tail].concat());
    let key = Key::new("default", meta::name(tree));
    kind.stored(key, ResourceVersion(1234), json).unwrap()
}

fn pod(spec: &Value, status: &Value) -> Value {
    let mut pod = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "a:1"}], "schedulerName": "mine"},
        "status": status,
    });
    for (name, value) in spec.as_object().unwrap() {
        pod["spec"][name] = value.clone();
    }
    pod
}

fn binding(metadata: &Value) -> Tree {
    let binding = json!({"metadata": metadata, "target": {"kind": "Node", "name": "node-1"}});
    to_tree(&binding).unwrap()
}

fn pod_kind() -> Arc<dyn Kind> {
    let kinds = setpoint_kinds::builtin();
    let pod = kinds.iter().find(|kind| kind.info().gvk.kind == "Pod");
    pod.unwrap().clone()
}

fn text(written: &CanonicalJson) -> String {
    String::from_utf8(written.bytes.clone()).unwrap()
}

fn facts() -> RequestFacts {
    RequestFacts {
        now: "2026-01-02T03:04:05Z".parse().unwrap(),
        user: Arc::new(User::component("tester")),
        event_ttl: Duration::from_secs(3600),
        allow_privileged: false,
    }
}
