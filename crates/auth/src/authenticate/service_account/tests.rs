//! Service account tokens: valid, expired, for other audiences, and of deleted accounts.

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{ManualClock, TestCaches};
use crate::keys::SigningKey;
use crate::token::claims::Kubernetes;
use crate::token::issuer::DEFAULT_URL;

const NOW: &str = "2026-01-01T00:00:00Z";

fn account(uid: &str) -> Value {
    json!({"kind": "ServiceAccount", "metadata": {"name": "web", "namespace": "default", "uid": uid}})
}

fn issuer() -> Arc<Issuer> {
    let key = SigningKey::from_pem(&SigningKey::generate().unwrap()).unwrap();
    Arc::new(Issuer::new(DEFAULT_URL, key, Vec::new()))
}

/// The claims of a token issued at `NOW` for an hour.
fn claims() -> Claims {
    let now = NOW.parse::<Timestamp>().unwrap().as_second();
    Claims {
        audiences: vec![DEFAULT_URL.to_owned()],
        issuer: DEFAULT_URL.to_owned(),
        id: "token-1".to_owned(),
        issued: Some(now),
        not_before: Some(now),
        expires: Some(now + 3600),
        subject: "system:serviceaccount:default:web".to_owned(),
        kubernetes: Kubernetes {
            namespace: "default".to_owned(),
            service_account: Ref {
                name: "web".to_owned(),
                uid: "u1".to_owned(),
            },
            ..Kubernetes::default()
        },
    }
}

#[track_caller]
fn check(claims: &Claims, caches: &Arc<TestCaches>, seconds_later: u64, expected: Result<&str, &str>) {
    let (issuer, clock) = (issuer(), ManualClock::at(NOW));
    let token = issuer.sign(claims).unwrap();
    let accounts = ServiceAccounts::new(issuer.clone(), caches.clone(), clock.clone());
    clock.advance(seconds_later);
    let found = accounts.authenticate_token(&token, &issuer.audiences);
    let found = found.map(|identity| identity.unwrap().user.name.clone());
    assert_eq!(found.as_deref().map_err(|error| error.0.as_str()), expected);
}

#[test]
fn a_good_token_names_the_service_account() {
    let caches = TestCaches::with(&[account("u1")]);
    check(&claims(), &caches, 0, Ok("system:serviceaccount:default:web"));
}

#[test]
fn the_user_is_in_the_groups_of_its_namespace_and_names_its_token() {
    let user = user_of(&claims());
    assert_eq!(
        user.groups,
        ["system:serviceaccounts", "system:serviceaccounts:default"]
    );
    assert_eq!(user.extra[CREDENTIAL_ID], ["JTI=token-1"]);
    assert_eq!(user.uid, "u1");
}

#[test]
fn an_expired_token_is_rejected() {
    let caches = TestCaches::with(&[account("u1")]);
    check(&claims(), &caches, 3661, Err("service account token has expired"));
}

#[test]
fn a_token_of_a_deleted_account_is_rejected() {
    check(
        &claims(),
        &TestCaches::with(&[]),
        0,
        Err(r#"serviceaccounts "web" not found"#),
    );
    check(
        &claims(),
        &TestCaches::with(&[account("u2")]),
        0,
        Err("service account UID (u2) does not match claim (u1)"),
    );
    let mut ending = account("u1");
    ending["metadata"]["deletionTimestamp"] = json!("2025-12-31T23:58:00Z");
    check(
        &claims(),
        &TestCaches::with(&[ending]),
        0,
        Err("service account default/web has been deleted"),
    );
}

#[test]
fn a_token_for_other_audiences_is_rejected() {
    let mut claims = claims();
    claims.audiences = vec!["vault".to_owned()];
    check(
        &claims,
        &TestCaches::with(&[account("u1")]),
        0,
        Err(
            r#"token audiences ["vault"] is invalid for the target audiences ["https://kubernetes.default.svc"]"#,
        ),
    );
}

#[test]
fn a_token_bound_to_a_node_is_invalid_without_it() {
    let mut claims = claims();
    claims.kubernetes.node = Some(Ref {
        name: "n1".to_owned(),
        uid: "u-n1".to_owned(),
    });
    let caches = TestCaches::with(&[account("u1")]);
    check(
        &claims,
        &caches,
        0,
        Err("service account token has been invalidated"),
    );
    caches.put(&json!({"kind": "Node", "metadata": {"name": "n1", "uid": "u-n2"}}));
    check(
        &claims,
        &caches,
        0,
        Err("node UID (u-n2) does not match service account node ref claim (u-n1)"),
    );
    caches.put(&json!({"kind": "Node", "metadata": {"name": "n1", "uid": "u-n1"}}));
    check(&claims, &caches, 0, Ok("system:serviceaccount:default:web"));
}
