//! Rules that require a further permission, besides that of the request.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::sync::Arc;

use cluster::Cluster;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::{Value, json};
use setpoint_admission::{AccessAttributes, AccessChecker, Config};
use setpoint_api::options::{PatchType, WriteOptions};
use setpoint_api::{Gvr, Key, Payload, Target, User, Verb};

/// Allows each permission that is listed as `verb resource/subresource name`.
#[derive(Debug)]
struct Only(&'static [&'static str]);

impl AccessChecker for Only {
    fn is_allowed(&self, _user: &User, attributes: &AccessAttributes<'_>) -> bool {
        let AccessAttributes {
            verb,
            resource,
            subresource,
            name,
            ..
        } = attributes;
        let wanted = format!("{verb} {resource}/{subresource} {name}");
        self.0.contains(&wanted.as_str())
    }
}

async fn start(allowed: &'static [&'static str]) -> Cluster {
    let config = Config {
        access: Some(Arc::new(Only(allowed))),
        ..Config::default()
    };
    Cluster::start(&config).await
}

fn alice() -> User {
    User::new("alice", &[User::AUTHENTICATED])
}

/// Patches the status of an object in `default`, and returns the error message.
async fn patch_status(cluster: &Cluster, user: User, resource: Gvr, patch: Value) -> Result<(), String> {
    let target = Target::object(resource, &Key::new("default", "a")).subresource("status");
    let verb = Verb::Patch(
        PatchType::Merge,
        Payload::json(patch.to_string()),
        WriteOptions::default(),
    );
    let response = cluster.call(user, target, verb).await;
    response.map(drop).map_err(|status| status.message)
}

#[tokio::test]
async fn a_trust_bundle_of_a_signer_requires_permission_to_attest() {
    let cluster = start(&["attest signers/ example.com/good"]).await;
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
    let create = async |signer: &str| {
        let path = format!(
            "clustertrustbundles.certificates.k8s.io /{}:a",
            signer.replace('/', ":")
        );
        let bundle = json!({"spec": {"signerName": signer, "trustBundle": certificate}});
        cluster.create_as(alice(), &path, &bundle.to_string()).await
    };
    assert_eq!(
        create("example.com/other").await.unwrap_err().message,
        "clustertrustbundles.certificates.k8s.io \"example.com:other:a\" is forbidden: user not permitted to attest for signerName \"example.com/other\""
    );
    create("example.com/good").await.unwrap();
    let bundle = json!({"spec": {"trustBundle": certificate}}).to_string();
    let path = "clustertrustbundles.certificates.k8s.io /unsigned";
    cluster.create_as(alice(), path, &bundle).await.unwrap();
}

#[tokio::test]
async fn the_status_of_a_pod_certificate_requires_permission_to_sign() {
    let cluster = start(&[]).await;
    let request = "MIHIMHACAQAwDjEMMAoGA1UEAwwDcG9kMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEUJ4Mjm/2vU/oNeh5MhqATi0jpiEJRkrIQ3z5+31c51VvwPLg2ujhI2ucvvbfQzDRC+XkBFJpZeg8SRz3yVHlFaAAMAoGCCqGSM49BAMCA0gAMEUCID2MObrP6PBrysFcGJZ5k/5cNesBvQsrikj3/inD+lMfAiEA/CBLO9BeWnAkJKUwDlpCutzKaMEn9b7bU1d4e8TOeC8=";
    let body = json!({"spec": {
        "signerName": "example.com/pods", "stubPKCS10Request": request, "podName": "web", "podUID": "u1",
        "serviceAccountName": "default", "serviceAccountUID": "u2", "nodeName": "n1", "nodeUID": "u3",
    }});
    let path = "podcertificaterequests.certificates.k8s.io default/a";
    cluster.create(path, &body.to_string()).await.unwrap();
    let condition = json!({
        "type": "Denied", "status": "True", "reason": "No", "message": "no",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let requests = Gvr::new("certificates.k8s.io", "v1", "podcertificaterequests");
    let patch = json!({"status": {"conditions": [condition]}});
    assert_eq!(
        patch_status(&cluster, alice(), requests, patch)
            .await
            .unwrap_err(),
        "PodCertificateRequest.certificates.k8s.io \"a\" is invalid: spec.signerName: Forbidden: User \"alice\" is not permitted to \"sign\" for signer \"example.com/pods\""
    );
}

fn claim(admin_access: bool) -> String {
    let exactly = json!({"deviceClassName": "gpu", "adminAccess": admin_access});
    json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}).to_string()
}

#[tokio::test]
async fn admin_access_to_devices_requires_the_label_of_the_namespace() {
    let cluster = start(&[]).await;
    let template = |admin: bool| format!("{{\"spec\": {}}}", claim(admin));
    let why = "is invalid: spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace";
    let (claims, templates) = (
        "resourceclaims.resource.k8s.io",
        "resourceclaimtemplates.resource.k8s.io",
    );
    let create = async |resource: &str, namespace: &str, body: &str| {
        let path = format!("{resource} {namespace}/a");
        cluster.create_as(alice(), &path, body).await
    };
    let message = create(claims, "default", &claim(true)).await.unwrap_err().message;
    assert_eq!(message, format!("ResourceClaim.resource.k8s.io \"a\" {why}"));
    let message = create(templates, "default", &template(true))
        .await
        .unwrap_err()
        .message;
    assert_eq!(
        message,
        format!("ResourceClaimTemplate.resource.k8s.io \"a\" {why}")
    );
    create(claims, "default", &claim(false)).await.unwrap();
    create(templates, "default", &template(false)).await.unwrap();
    let namespace = r#"{"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}"#;
    cluster.create("namespaces /admins", namespace).await.unwrap();
    create(claims, "admins", &claim(true)).await.unwrap();
}

#[tokio::test]
async fn the_parts_of_a_claims_status_require_permissions_of_their_own() {
    let claims = || Gvr::new("resource.k8s.io", "v1", "resourceclaims");
    let node = json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]});
    let result = json!({"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"});
    let allocation =
        json!({"status": {"allocation": {"devices": {"results": [result]}, "nodeSelector": node}}});
    let device = json!({"driver": "d.example.com", "pool": "p", "device": "x"});
    let devices = json!({"status": {"devices": [device]}});

    let cluster = start(&["associated-node:patch resourceclaims/driver d.example.com"]).await;
    let path = "resourceclaims.resource.k8s.io default/a";
    cluster.create(path, &claim(false)).await.unwrap();
    assert_eq!(
        patch_status(&cluster, alice(), claims(), allocation.clone())
            .await
            .unwrap_err(),
        "ResourceClaim.resource.k8s.io \"a\" is invalid: status.allocation: Forbidden: changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", verb=\"patch\" permission: resourceclaims.resource.k8s.io is forbidden: User \"alice\" cannot patch resource \"resourceclaims/binding\" in API group \"resource.k8s.io\" at the cluster scope"
    );

    let binder = start(&[
        "patch resourceclaims/binding ",
        "associated-node:patch resourceclaims/driver d.example.com",
    ])
    .await;
    binder.create(path, &claim(false)).await.unwrap();
    patch_status(&binder, alice(), claims(), allocation)
        .await
        .unwrap();
    assert_eq!(
        patch_status(&binder, alice(), claims(), devices.clone())
            .await
            .unwrap_err(),
        "ResourceClaim.resource.k8s.io \"a\" is invalid: status.devices: Forbidden: changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[arbitrary-node:patch]\" permission: resourceclaims.resource.k8s.io \"d.example.com\" is forbidden: User \"alice\" cannot arbitrary-node:patch resource \"resourceclaims/driver\" in API group \"resource.k8s.io\" in the namespace \"default\""
    );
    let mut driver = User::new("system:serviceaccount:default:driver", &[User::AUTHENTICATED]);
    let node_name = "authentication.kubernetes.io/node-name".to_owned();
    driver.extra.insert(node_name.clone(), vec!["n2".to_owned()]);
    assert!(
        patch_status(&binder, driver.clone(), claims(), devices.clone())
            .await
            .is_err()
    );
    driver.extra.insert(node_name, vec!["n1".to_owned()]);
    patch_status(&binder, driver, claims(), devices).await.unwrap();
}
