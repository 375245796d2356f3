//! Token requests, and authentication with the issued tokens.

use serde_json::{Value, json};

use super::*;
use crate::authenticate::{ServiceAccounts, TokenAuthenticator as _};
use crate::fixtures::{ManualClock, TestCaches};
use crate::keys::SigningKey;
use crate::token::issuer::DEFAULT_URL;

const NOW: &str = "2026-01-01T00:00:00Z";

fn issuer() -> Arc<Issuer> {
    let key = SigningKey::from_pem(&SigningKey::generate().unwrap()).unwrap();
    Arc::new(Issuer::new(DEFAULT_URL, key, Vec::new()))
}

fn caches() -> Arc<TestCaches> {
    TestCaches::with(&[
        json!({"kind": "ServiceAccount", "metadata": {"name": "web", "namespace": "default", "uid": "u-web"}}),
        json!({"kind": "Pod", "metadata": {"name": "p1", "namespace": "default", "uid": "u-p1"},
               "spec": {"serviceAccountName": "web", "nodeName": "n1"}}),
        json!({"kind": "Pod", "metadata": {"name": "p2", "namespace": "default", "uid": "u-p2"},
               "spec": {"serviceAccountName": "other"}}),
        json!({"kind": "Node", "metadata": {"name": "n1", "uid": "u-n1"}}),
        json!({"kind": "Secret", "metadata": {"name": "s1", "namespace": "default", "uid": "u-s1"}}),
    ])
}

fn request_token(issuer: &Issuer, caches: &TestCaches, body: &Value) -> Result<Value, Status> {
    let cache = caches.cache(&GroupResource::new("", "serviceaccounts")).unwrap();
    let account = cache.find(&Key::new("default", "web")).unwrap();
    let token_request = TokenRequest {
        account: &account,
        body: setpoint_schema::to_tree(body).unwrap(),
        caches,
        now: NOW.parse().unwrap(),
    };
    let tree = issue(issuer, token_request)?;
    let mut json = Vec::new();
    setpoint_schema::write::write_tree(&tree, &mut json);
    Ok(serde_json::from_slice(&json).unwrap())
}

#[track_caller]
fn check_claims(spec: &Value, expected: &Value) {
    let (issuer, caches) = (issuer(), caches());
    let response = request_token(&issuer, &caches, &json!({"spec": spec})).unwrap();
    let claims = issuer.verify(response["status"]["token"].as_str().unwrap());
    let claims = serde_json::to_value(&*claims.unwrap().unwrap()).unwrap();
    for (claim, value) in expected.as_object().unwrap() {
        assert_eq!(&claims[claim], value, "{claim}");
    }
}

#[track_caller]
fn check_error(body: &Value, code: u16, message: &str) {
    let status = request_token(&issuer(), &caches(), body).unwrap_err();
    assert_eq!((status.code, status.message.as_str()), (code, message));
}

#[test]
fn a_token_names_its_service_account() {
    let now = 1_767_225_600;
    check_claims(
        &json!({}),
        &json!({
            "aud": ["https://kubernetes.default.svc"], "iss": "https://kubernetes.default.svc",
            "sub": "system:serviceaccount:default:web", "iat": now, "nbf": now, "exp": now + 3600,
            "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "web", "uid": "u-web"}},
        }),
    );
}

#[test]
fn a_token_bound_to_a_pod_names_its_node() {
    check_claims(
        &json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p1"}, "audiences": ["vault"]}),
        &json!({"aud": ["vault"], "kubernetes.io": {
            "namespace": "default", "serviceaccount": {"name": "web", "uid": "u-web"},
            "pod": {"name": "p1", "uid": "u-p1"}, "node": {"name": "n1", "uid": "u-n1"},
        }}),
    );
}

#[test]
fn a_projected_token_is_valid_for_a_year_and_has_warnafter() {
    let now = 1_767_225_600;
    check_claims(
        &json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p1"}, "expirationSeconds": 3607}),
        &json!({"exp": now + 31_536_000, "kubernetes.io": {
            "namespace": "default", "serviceaccount": {"name": "web", "uid": "u-web"},
            "pod": {"name": "p1", "uid": "u-p1"}, "node": {"name": "n1", "uid": "u-n1"}, "warnafter": now + 3607,
        }}),
    );
}

#[test]
fn the_response_is_the_request_with_its_status() {
    let mut response =
        request_token(&issuer(), &caches(), &json!({"spec": {"expirationSeconds": 700}})).unwrap();
    let token = response["status"]["token"].take();
    assert_eq!(token.as_str().unwrap().split('.').count(), 3);
    assert_eq!(
        response,
        json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "u-web", "creationTimestamp": NOW},
            "spec": {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 700},
            "status": {"token": null, "expirationTimestamp": "2026-01-01T00:11:40Z"},
        })
    );
}

#[test]
fn expirations_out_of_bounds_are_rejected() {
    check_error(
        &json!({"spec": {"expirationSeconds": 599}}),
        422,
        r#"TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"#,
    );
    check_error(
        &json!({"spec": {"expirationSeconds": 4_294_967_297_i64}}),
        422,
        r#"TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds"#,
    );
}

#[test]
fn the_bound_object_must_be_there_and_fit() {
    let bound = |kind: &str, name: &str, uid: &str| json!({"spec": {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name, "uid": uid}}});
    check_error(&bound("Pod", "p9", ""), 404, r#"pods "p9" not found"#);
    check_error(
        &bound("Pod", "p2", ""),
        400,
        r#"cannot bind token for serviceaccount "web" to pod running with different serviceaccount name."#,
    );
    check_error(
        &bound("ConfigMap", "c", ""),
        400,
        "cannot bind token to object of type /v1, Kind=ConfigMap",
    );
    check_error(
        &bound("Secret", "s1", "u-old"),
        409,
        "Operation cannot be fulfilled on Secret \"s1\": the UID in the bound object reference (u-old) does not match \
         the UID in record. The object might have been deleted and then recreated",
    );
}

#[test]
fn the_metadata_must_match_the_service_account() {
    check_error(
        &json!({"metadata": {"name": "db"}}),
        422,
        r#"TokenRequest.authentication.k8s.io "web" is invalid: metadata.name: Invalid value: "db": must match the service account name if specified"#,
    );
    check_error(
        &json!({"metadata": {"uid": "u-old"}}),
        409,
        r#"Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "web": the UID in the token request (u-old) does not match the UID of the service account (u-web)"#,
    );
}

/// A token is invalid without the pod it is bound to, and the user has the pod in its `extra`.
#[test]
fn a_bearer_is_known_as_long_as_the_pod_lives() {
    let (issuer, caches) = (issuer(), caches());
    let spec = json!({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p1"}}});
    let response = request_token(&issuer, &caches, &spec).unwrap();
    let token = response["status"]["token"].as_str().unwrap();
    let accounts = ServiceAccounts::new(issuer.clone(), caches.clone(), ManualClock::at(NOW));
    let known = accounts
        .authenticate_token(token, &issuer.audiences)
        .unwrap()
        .unwrap();
    assert_eq!(known.user.name, "system:serviceaccount:default:web");
    assert_eq!(
        known.user.extra["authentication.kubernetes.io/node-uid"],
        ["u-n1"]
    );
    caches.remove(&json!({"kind": "Pod", "metadata": {"name": "p1", "namespace": "default"}}));
    let error = accounts.authenticate_token(token, &issuer.audiences).unwrap_err();
    assert_eq!(error.0, "service account token has been invalidated");
}

#[test]
fn validating_admission_sees_the_account_and_the_audiences() {
    let (issuer, caches) = (issuer(), caches());
    let cache = caches.cache(&GroupResource::new("", "serviceaccounts")).unwrap();
    let account = cache.find(&Key::new("default", "web")).unwrap();
    let body = json!({"spec": {"expirationSeconds": 1200}, "status": {"token": "x"}});
    let mut body = setpoint_schema::to_tree(&body).unwrap();
    prepare(&issuer, &account, &mut body, NOW.parse().unwrap()).unwrap();
    let mut json = Vec::new();
    setpoint_schema::write::write_tree(&body, &mut json);
    let prepared: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(
        prepared,
        json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "u-web", "creationTimestamp": NOW},
            "spec": {"expirationSeconds": 1200, "audiences": ["https://kubernetes.default.svc"]},
        })
    );
}
