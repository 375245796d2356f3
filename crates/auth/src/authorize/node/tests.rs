//! Access of nodes: their own objects, and those that their pods use.

use serde_json::{Value, json};
use setpoint_api::selector::FieldSelector;

use super::*;
use crate::fixtures::TestCaches;

fn pod(name: &str, node: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["nodeName"] = json!(node);
    json!({"kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

fn caches() -> Arc<TestCaches> {
    let uses = json!({
        "serviceAccountName": "web",
        "imagePullSecrets": [{"name": "pull"}],
        "containers": [{
            "env": [{"valueFrom": {"secretKeyRef": {"name": "from-env"}}}, {"valueFrom": {"configMapKeyRef": {"name": "settings"}}}],
            "envFrom": [{"secretRef": {"name": "all-env"}}],
        }],
        "volumes": [
            {"name": "a", "secret": {"secretName": "mounted"}},
            {"name": "b", "projected": {"sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "ca"}}]}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "d", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "e", "csi": {"driver": "x", "nodePublishSecretRef": {"name": "csi"}}},
        ],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu-1"}],
    });
    let mut mirror = pod(
        "mirror",
        "n2",
        &json!({"volumes": [{"name": "a", "secret": {"secretName": "stolen"}}]}),
    );
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    TestCaches::with(&[
        pod("p1", "n1", &uses),
        pod("p2", "n2", &json!({"serviceAccountName": "other"})),
        mirror,
        json!({"kind": "PersistentVolume", "metadata": {"name": "pv1"}, "spec": {
            "claimRef": {"namespace": "default", "name": "data"},
            "csi": {"driver": "x", "nodeStageSecretRef": {"namespace": "storage", "name": "stage"},
                    "controllerPublishSecretRef": {"namespace": "storage", "name": "controller"}},
        }}),
        json!({"kind": "VolumeAttachment", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "va1"}, "spec": {"nodeName": "n1"}}),
    ])
}

/// An empty reason means: allowed.
#[track_caller]
fn check(node: &str, request: &str, expected: &str) {
    let words: Vec<&str> = request.split(' ').collect();
    let [verb, resource, namespace, name] = words.as_slice() else {
        panic!("{request:?} is not verb, resource, namespace and name");
    };
    let (group, resource) = resource.split_once(':').unwrap_or(("", resource));
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let object = AccessTarget::Resource {
        group,
        resource,
        subresource,
        namespace: namespace.trim_matches('-'),
        name: name.trim_matches('-'),
    };
    let user = User::new(&format!("system:node:{node}"), &[GROUP]);
    let reason = match NodeAuthorizer::new(caches())
        .authorize(&user, &Attributes::new(verb, object))
        .wait()
    {
        Decision::Allowed(_) => String::new(),
        Decision::Denied(reason) | Decision::NoOpinion(reason) if reason.is_none() => "no".to_owned(),
        Decision::Denied(reason) | Decision::NoOpinion(reason) => reason.to_string(),
    };
    assert_eq!(reason, expected, "{node}: {request}");
}

fn unrelated(node: &str) -> String {
    format!("no relationship found between node '{node}' and this object")
}

#[test]
fn a_node_reads_the_secrets_its_pods_use() {
    for secret in ["pull", "from-env", "all-env", "mounted", "projected", "csi"] {
        check("n1", &format!("get secrets default {secret}"), "");
        check("n2", &format!("get secrets default {secret}"), &unrelated("n2"));
    }
    check("n1", "get secrets default another", &unrelated("n1"));
    check("n1", "get secrets other mounted", &unrelated("n1"));
    check("n1", "watch secrets default mounted", "");
    check("n1", "list secrets default -", "No Object name found");
    check(
        "n1",
        "list secrets - -",
        "can only read namespaced object of this type",
    );
    check(
        "n1",
        "update secrets default mounted",
        "can only read resources of this type",
    );
}

#[test]
fn a_node_reads_the_other_objects_its_pods_use() {
    for request in [
        "get configmaps default settings",
        "get configmaps default ca",
        "get persistentvolumeclaims default data",
        "get persistentvolumeclaims default p1-d",
        "patch persistentvolumeclaims/status default data",
        "get persistentvolumes - pv1",
        "get secrets storage stage",
        "get serviceaccounts default web",
        "create serviceaccounts/token default web",
        "get resource.k8s.io:resourceclaims default gpu-1",
        "get storage.k8s.io:volumeattachments - va1",
        "get pods default p1",
    ] {
        check("n1", request, "");
        check("n2", request, &unrelated("n2"));
    }
    check("n1", "get secrets storage controller", &unrelated("n1"));
}

#[test]
fn a_mirror_pod_gives_no_access() {
    check("n2", "get secrets default stolen", &unrelated("n2"));
    check("n2", "get pods default mirror", "");
}

#[test]
fn a_node_has_its_own_objects_only() {
    check("n1", "get nodes - n1", "");
    check(
        "n1",
        "get nodes - n2",
        "node 'n1' cannot read 'n2', only its own Node object",
    );
    check(
        "n1",
        "list nodes - -",
        "node 'n1' cannot read all nodes, only its own Node object",
    );
    check("n1", "patch nodes/status - n1", "");
    check("n1", "delete nodes - n1", "no");
    check("n1", "update coordination.k8s.io:leases kube-node-lease n1", "");
    check(
        "n1",
        "update coordination.k8s.io:leases kube-node-lease n2",
        "can only access node lease with the same name as the requesting node",
    );
    check(
        "n1",
        "update coordination.k8s.io:leases kube-system kube-scheduler",
        r#"can only access leases in the "kube-node-lease" system namespace"#,
    );
    check(
        "n1",
        "get storage.k8s.io:csinodes - n2",
        "can only access CSINode with the same name as the requesting node",
    );
}

#[test]
fn every_node_may_do_some_things() {
    check("n1", "create authentication.k8s.io:tokenreviews - -", "");
    check("n1", "list services - -", "");
    check("n1", "create events default -", "");
    check("n1", "create pods/binding default p1", "no");
    check("n1", "delete namespaces - default", "no");
}

#[test]
fn pods_are_listed_by_node() {
    let nodes = NodeAuthorizer::new(caches());
    let user = User::new("system:node:n1", &[GROUP]);
    let may = |selector: &str| {
        let fields: FieldSelector = selector.parse().unwrap();
        let object = AccessTarget::Resource {
            group: "",
            resource: "pods",
            subresource: "",
            namespace: "",
            name: "",
        };
        let attributes = Attributes {
            fields: Some(&fields),
            ..Attributes::new("list", object)
        };
        nodes.authorize(&user, &attributes).wait().is_allowed()
    };
    assert!(may("spec.nodeName=n1"));
    assert!(!may("spec.nodeName=n2"));
    assert!(!may("spec.nodeName!=n1"));
    assert!(!may(""));
}

#[test]
fn the_node_authorizer_has_no_opinion_on_other_users() {
    let nodes = NodeAuthorizer::new(caches());
    let attributes = Attributes::new("get", AccessTarget::Path("/healthz"));
    for user in [User::new("system:node:n1", &[]), User::new("n1", &[GROUP])] {
        assert!(nodes.authorize(&user, &attributes).wait().reason().is_none());
    }
    let nameless = User::new("system:node:", &[GROUP]);
    assert_eq!(
        nodes
            .authorize(&nameless, &attributes)
            .wait()
            .reason()
            .to_string(),
        r#"unknown node for user "system:node:""#
    );
}
