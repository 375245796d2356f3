//! NodeRestriction: what a node may write. Each row is a request of `node-0` and the reason of its rejection.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::Cluster;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};
use setpoint_admission::{AccessAttributes, AccessChecker, Config};
use setpoint_api::options::{DeleteOptions, PatchType, WriteOptions};
use setpoint_api::{Gvr, Key, Payload, Target, User, Verb};

/// Allows a token audience and a signer, and nothing else.
#[derive(Debug)]
struct Audiences;

impl AccessChecker for Audiences {
    fn is_allowed(&self, user: &User, attributes: &AccessAttributes<'_>) -> bool {
        let rule = (attributes.verb, attributes.resource, attributes.name);
        user.name == "system:node:node-0"
            && matches!(
                rule,
                ("request-serviceaccounts-token-audience", "granted", "default")
                    | (
                        "request-serviceaccounts-podcertificate-signer",
                        "example.com:granted",
                        "default"
                    )
            )
    }
}

struct Nodes {
    cluster: Cluster,
    node_uid: String,
    own: Value,
    other: Value,
    account_uid: String,
}

impl Nodes {
    /// Two nodes, with the pod `own` on `node-0` and the pod `other` on `node-1`.
    async fn start() -> Self {
        let config = Config {
            node_restriction: true,
            access: Some(Arc::new(Audiences)),
            ..Config::default()
        };
        let cluster = Cluster::start(&config).await;
        let account = cluster.get("serviceaccounts default/default").await.unwrap();
        let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap().to_owned();
        let node = cluster.create("nodes /node-0", "{}").await.unwrap();
        cluster.create("nodes /node-1", "{}").await.unwrap();
        let driver = json!({"spec": {"tokenRequests": [{"audience": "driver"}]}}).to_string();
        cluster
            .create("csidrivers.storage.k8s.io /csi.example.com", &driver)
            .await
            .unwrap();
        let pod = |node: &str, volumes: Value| {
            let containers = json!([{"name": "c", "image": "i"}]);
            json!({"spec": {"nodeName": node, "containers": containers, "volumes": volumes}}).to_string()
        };
        let key =
            json!({"signerName": "example.com/mounted", "keyType": "ED25519", "credentialBundlePath": "b"});
        let volumes = json!([
            {"name": "v", "csi": {"driver": "csi.example.com"}},
            {"name": "p", "projected": {"sources": [
                {"serviceAccountToken": {"audience": "mounted", "path": "t"}}, {"podCertificate": key},
            ]}},
        ]);
        let own = cluster
            .create("pods default/own", &pod("node-0", volumes))
            .await
            .unwrap();
        let other = cluster
            .create("pods default/other", &pod("node-1", json!([])))
            .await
            .unwrap();
        Self {
            node_uid: uid(&node),
            account_uid: uid(&account),
            cluster,
            own,
            other,
        }
    }

    /// Sends a request as `node-0`: the path is `resource.group namespace/name/subresource`.
    async fn send(&self, verb: Verb, path: &str) -> Result<(), (u16, String)> {
        let user = User::new("system:node:node-0", &["system:nodes", User::AUTHENTICATED]);
        self.send_as(user, verb, path).await
    }

    async fn send_as(&self, user: User, verb: Verb, path: &str) -> Result<(), (u16, String)> {
        let (resource, key) = path.split_once(' ').unwrap();
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        let parts: Vec<&str> = key.split('/').collect();
        let gvr = Gvr::new(group, "v1", resource);
        let mut target = match (&verb, parts.as_slice()) {
            (Verb::Create(..), ["", _]) => Target::all(gvr),
            (Verb::Create(..), [namespace, _]) => Target::in_namespace(gvr, namespace),
            (_, parts) => Target::object(gvr, &Key::new(parts[0], parts[1])),
        };
        if let Some(subresource) = parts.get(2) {
            target = target.subresource(subresource);
        }
        let response = self.cluster.call(user, target, verb).await;
        response.map(drop).map_err(|status| (status.code, status.message))
    }

    /// The outcome of a create: `Ok`, or the message after `is forbidden: `.
    async fn create(&self, path: &str, mut body: Value) -> Result<(), String> {
        let name = path.rsplit('/').next().unwrap();
        if !path.ends_with("/token") && !path.ends_with("/eviction") {
            body["metadata"]["name"] = name.into();
        }
        let verb = Verb::Create(Payload::json(body.to_string()), WriteOptions::default());
        reason(self.send(verb, path).await)
    }

    async fn patch(&self, path: &str, patch: Value) -> Result<(), String> {
        let payload = Payload::json(patch.to_string());
        let verb = Verb::Patch(PatchType::Merge, payload, WriteOptions::default());
        reason(self.send(verb, path).await)
    }

    async fn delete(&self, path: &str) -> Result<(), String> {
        reason(self.send(Verb::Delete(DeleteOptions::default()), path).await)
    }
}

/// The reason in a message of 403. A 405 means that admission let a virtual resource pass, which nothing here serves.
fn reason(outcome: Result<(), (u16, String)>) -> Result<(), String> {
    match outcome {
        Ok(()) | Err((405, _)) => Ok(()),
        Err((403, message)) => Err(message.split_once(" is forbidden: ").unwrap().1.to_owned()),
        Err((code, message)) => Err(format!("{code} {message}")),
    }
}

#[track_caller]
fn denied(outcome: Result<(), String>, expected: &str) {
    assert_eq!(outcome.unwrap_err(), expected);
}

#[tokio::test]
async fn a_node_writes_its_own_node_without_labels_taints_and_owners_that_matter() {
    let nodes = Nodes::start().await;
    let label = |key: &str| json!({"metadata": {"labels": {key: "x"}}});
    for path in ["nodes /node-0", "nodes /node-0/status"] {
        denied(
            nodes.patch(path, label("node-restriction.kubernetes.io/x")).await,
            "is not allowed to modify labels: node-restriction.kubernetes.io/x",
        );
        denied(
            nodes.patch(path, label("node-role.kubernetes.io/master")).await,
            "is not allowed to modify labels: node-role.kubernetes.io/master",
        );
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "1"});
        denied(
            nodes
                .patch(path, json!({"metadata": {"ownerReferences": [owner]}}))
                .await,
            "node \"node-0\" is not allowed to modify ownerReferences",
        );
        denied(
            nodes
                .patch(
                    path,
                    json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
                )
                .await,
            "node \"node-0\" is not allowed to modify taints",
        );
    }
    let source = json!({"configMap": {"name": "n", "namespace": "default", "kubeletConfigKey": "k"}});
    denied(
        nodes
            .patch("nodes /node-0", json!({"spec": {"configSource": source}}))
            .await,
        "node \"node-0\" is not allowed to update configSource to a new non-nil configSource",
    );
    nodes
        .patch("nodes /node-0", label("kubernetes.io/hostname"))
        .await
        .unwrap();
    nodes
        .patch("nodes /node-0", label("example.com/x"))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_node_creates_only_itself_and_writes_no_other() {
    let nodes = Nodes::start().await;
    let label = |key: &str| json!({"metadata": {"labels": {key: "x"}}});
    denied(
        nodes.patch("nodes /node-1", label("x")).await,
        "node \"node-0\" is not allowed to modify node \"node-1\"",
    );
    denied(
        nodes.create("nodes /node-2", json!({})).await,
        "node \"node-0\" is not allowed to modify node \"node-2\"",
    );
    denied(
        nodes.delete("nodes /node-1").await,
        "node \"node-0\" is not allowed to modify node \"node-1\"",
    );
    nodes.cluster.delete("nodes /node-0").await.unwrap();
    let labels = json!({"metadata": {"labels": {"k8s.io/b": "", "a.k8s.io/a": "", "x": ""}}});
    denied(
        nodes.create("nodes /node-0", labels).await,
        "node \"node-0\" is not allowed to set the following labels: a.k8s.io/a, k8s.io/b",
    );
    nodes.create("nodes /node-0", label("x")).await.unwrap();
}

#[tokio::test]
async fn a_node_without_a_name_is_rejected() {
    let nodes = Nodes::start().await;
    let user = User::new("system:node:", &["system:nodes"]);
    let verb = Verb::Create(
        Payload::json(r#"{"metadata":{"name":"x"}}"#),
        WriteOptions::default(),
    );
    let outcome = reason(nodes.send_as(user, verb, "configmaps default/x").await);
    denied(outcome, "could not determine node from user \"system:node:\"");
}

#[tokio::test]
async fn tokens_are_bound_to_a_pod_of_the_node_and_to_its_audiences() {
    let nodes = Nodes::start().await;
    let request = async |bound: Option<&Value>, uid: &str, audiences: &[&str]| {
        let mut spec = json!({"audiences": audiences});
        if let Some(pod) = bound {
            let name = &pod["metadata"]["name"];
            spec["boundObjectRef"] = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
        }
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
        let target = "serviceaccounts default/default/token";
        let verb = Verb::Create(Payload::json(body.to_string()), WriteOptions::default());
        reason(nodes.send(verb, target).await)
    };
    let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap().to_owned();
    let (own, other) = (Some(&nodes.own), Some(&nodes.other));
    denied(
        request(None, "", &[]).await,
        "node requested token not bound to a pod",
    );
    denied(
        request(own, "", &[]).await,
        "node requested token with a pod binding without a uid",
    );
    denied(
        request(own, "x", &[]).await,
        "the UID in the bound object reference (x) does not match the UID in record. The object might have been deleted and then recreated",
    );
    denied(
        request(other, &uid(&nodes.other), &[]).await,
        "node requested token bound to a pod scheduled on a different node",
    );
    let own_uid = uid(&nodes.own);
    for audience in ["mounted", "driver", "granted"] {
        request(own, &own_uid, &[audience]).await.unwrap();
    }
    request(own, &own_uid, &[]).await.unwrap();
    denied(
        request(own, &own_uid, &["evil"]).await,
        "system:node:node-0 is not authorized to request tokens for audience \"evil\"",
    );
    denied(
        request(own, &own_uid, &["mounted", "driver"]).await,
        "node may only request 0 or 1 audiences",
    );
    let gone = json!({"metadata": {"name": "gone"}});
    denied(
        request(Some(&gone), "x", &[]).await,
        "404 pods \"gone\" not found",
    );
}

#[tokio::test]
async fn a_node_creates_mirror_pods_that_reference_nothing() {
    let nodes = Nodes::start().await;
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "Node", "name": "node-0", "uid": uid, "controller": true});
    let mirror = |owners: Value, spec: Value| {
        let mut pod = json!({
            "metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": owners},
            "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]},
        });
        for (key, value) in spec.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        pod
    };
    let own = || json!([owner(&nodes.node_uid)]);
    let create = async |pod: Value| nodes.create("pods default/m", pod).await;
    denied(
        create(json!({"spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]}})).await,
        "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"node-0\" can only create mirror pods",
    );
    denied(
        create(mirror(own(), json!({"nodeName": "node-1"}))).await,
        "node \"node-0\" can only create pods with spec.nodeName set to itself",
    );
    denied(
        create(mirror(json!([]), json!({}))).await,
        "node \"node-0\" can only create pods with an owner reference set to itself",
    );
    denied(
        create(mirror(json!([owner(&nodes.node_uid), owner("2")]), json!({}))).await,
        "node \"node-0\" can only create pods with a single owner reference set to itself",
    );
    denied(
        create(mirror(json!([owner("2")]), json!({}))).await,
        &format!("node node-0 UID mismatch: expected 2 got {}", nodes.node_uid),
    );
    let mut blocking = owner(&nodes.node_uid);
    blocking["blockOwnerDeletion"] = true.into();
    denied(
        create(mirror(json!([blocking]), json!({}))).await,
        "node \"node-0\" must not set blockOwnerDeletion on an owner reference",
    );
    denied(
        create(mirror(own(), json!({"imagePullSecrets": [{"name": "s"}]}))).await,
        "node \"node-0\" can not create pods that reference secrets",
    );
    denied(
        create(mirror(
            own(),
            json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}),
        ))
        .await,
        "node \"node-0\" can not create pods that reference persistentvolumeclaims",
    );
    create(mirror(
        own(),
        json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
    ))
    .await
    .unwrap();
}

#[tokio::test]
async fn a_node_writes_the_status_of_its_own_pods_and_evicts_and_deletes_them() {
    let nodes = Nodes::start().await;
    let evict =
        |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    denied(
        nodes
            .patch(
                "pods default/own/status",
                json!({"metadata": {"labels": {"a": "b"}}}),
            )
            .await,
        "node \"node-0\" cannot update labels through pod status",
    );
    let claims = json!({"status": {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "x"}]}});
    denied(
        nodes.patch("pods default/own/status", claims).await,
        "node \"node-0\" cannot update resource claim statues",
    );
    nodes
        .patch("pods default/own/status", json!({"status": {"message": "m"}}))
        .await
        .unwrap();
    denied(
        nodes
            .patch("pods default/other/status", json!({"status": {"message": "m"}}))
            .await,
        "node \"node-0\" can only update pod status for pods with spec.nodeName set to itself",
    );
    denied(
        nodes
            .patch("pods default/own", json!({"metadata": {"labels": {"a": "b"}}}))
            .await,
        "unexpected operation \"UPDATE\", node \"node-0\" can only create and delete mirror pods",
    );
    denied(
        nodes.create("pods default/other/eviction", evict("other")).await,
        "node node-0 can only evict pods with spec.nodeName set to itself",
    );
    denied(
        nodes.delete("pods default/other").await,
        "node \"node-0\" can only delete pods with spec.nodeName set to itself",
    );
    nodes
        .create("pods default/own/eviction", evict("own"))
        .await
        .unwrap();
    nodes.delete("pods default/own").await.unwrap();
}

#[tokio::test]
async fn objects_of_another_node_are_not_written() {
    let nodes = Nodes::start().await;
    let csi = json!({"spec": {"drivers": []}});
    denied(
        nodes.create("csinodes.storage.k8s.io /node-9", csi.clone()).await,
        "can only access CSINode with the same name as the requesting node",
    );
    nodes
        .create("csinodes.storage.k8s.io /node-0", csi)
        .await
        .unwrap();
    nodes.delete("csinodes.storage.k8s.io /node-0").await.unwrap();
    let slice = |node: &str| json!({"spec": {"driver": "d.example.com", "nodeName": node, "pool": {"name": "p", "resourceSliceCount": 1}}});
    denied(
        nodes
            .create("resourceslices.resource.k8s.io /s", slice("node-1"))
            .await,
        "can only create ResourceSlice with the same NodeName as the requesting node",
    );
    nodes
        .create("resourceslices.resource.k8s.io /s", slice("node-0"))
        .await
        .unwrap();
    nodes.delete("resourceslices.resource.k8s.io /s").await.unwrap();
    let other = slice("node-1").to_string();
    nodes
        .cluster
        .create("resourceslices.resource.k8s.io /t", &other)
        .await
        .unwrap();
    denied(
        nodes.delete("resourceslices.resource.k8s.io /t").await,
        "can only delete ResourceSlice with the same NodeName as the requesting node",
    );
    denied(
        nodes
            .create("leases.coordination.k8s.io default/node-0", json!({}))
            .await,
        "can only access leases in the \"kube-node-lease\" system namespace",
    );
    denied(
        nodes
            .create("leases.coordination.k8s.io kube-node-lease/node-1", json!({}))
            .await,
        "can only access node lease with the same name as the requesting node",
    );
    nodes
        .create("leases.coordination.k8s.io kube-node-lease/node-0", json!({}))
        .await
        .unwrap();
}

#[tokio::test]
async fn only_the_capacity_of_a_claim_is_written() {
    let nodes = Nodes::start().await;
    let claim =
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let path = "persistentvolumeclaims default/c";
    nodes.cluster.create(path, &claim.to_string()).await.unwrap();
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    denied(
        nodes.patch(path, label.clone()).await,
        "may only update PVC status",
    );
    let status = "persistentvolumeclaims default/c/status";
    denied(
        nodes.patch(status, label).await,
        "node \"node-0\" is not allowed to update fields other than status.quantity and status.conditions: metadata.labels",
    );
    nodes
        .patch(status, json!({"status": {"capacity": {"storage": "2Gi"}}}))
        .await
        .unwrap();
}

#[tokio::test]
async fn certificates_are_requested_for_the_node_and_its_pods() {
    let nodes = Nodes::start().await;
    let signing = |name: &str| {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params
            .serialize_request(&KeyPair::generate().unwrap())
            .unwrap()
            .pem()
            .unwrap();
        json!({"spec": {
            "request": STANDARD.encode(pem), "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["client auth", "digital signature"],
        }})
    };
    let path = "certificatesigningrequests.certificates.k8s.io /r";
    denied(
        nodes.create(path, signing("system:node:node-1")).await,
        "can only create a node CSR with CN=system:node:node-0",
    );
    nodes.create(path, signing("system:node:node-0")).await.unwrap();

    let request = async |pod: &Value, node: &str, signer: &str| {
        let body = json!({"spec": {
            "nodeName": node, "nodeUID": nodes.node_uid, "podName": pod["metadata"]["name"],
            "podUID": pod["metadata"]["uid"], "serviceAccountName": "default",
            "serviceAccountUID": nodes.account_uid, "signerName": signer,
            "pkixPublicKey": "eA==", "proofOfPossession": "eA==",
        }});
        nodes
            .create("podcertificaterequests.certificates.k8s.io default/r", body)
            .await
    };
    denied(
        request(&nodes.own, "node-1", "example.com/mounted").await,
        "PodCertificateRequest.Spec.NodeName=\"node-1\", which is not the requesting node \"node-0\"",
    );
    denied(
        request(&nodes.other, "node-0", "example.com/mounted").await,
        "pod \"default/other\" is not running on node \"node-0\" named in the PodCertificateRequest",
    );
    denied(
        request(&nodes.own, "node-0", "example.com/other").await,
        "pod \"default/own\" does not mount a podCertificate projected volume for signer \"example.com/other\"",
    );
    for signer in ["example.com/mounted", "example.com/granted"] {
        // The key is no key, which is found after admission.
        let outcome = request(&nodes.own, "node-0", signer).await.unwrap_err();
        assert!(outcome.starts_with("422 "), "{outcome}");
    }
}
