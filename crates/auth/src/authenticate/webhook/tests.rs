//! Reviews of a webhook whose responses are in memory.

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{ManualClock, TestWebhook, now};

struct Fixture {
    webhook: Arc<TestWebhook>,
    clock: Arc<ManualClock>,
    tokens: WebhookTokens,
}

fn fixture(responses: &[Result<Value, &'static str>]) -> Fixture {
    let webhook = Arc::new(TestWebhook::default());
    *webhook.responses.lock() = responses.to_vec();
    let clock = ManualClock::at("2026-01-01T00:00:00Z");
    let options = WebhookTokenOptions {
        version: "v1".to_owned(),
        cache_ttl: Duration::from_secs(120),
        api_audiences: vec!["api".to_owned()],
    };
    let tokens = WebhookTokens::new(options, Box::new(webhook.clone()), clock.clone()).unwrap();
    Fixture {
        webhook,
        clock,
        tokens,
    }
}

impl Fixture {
    fn authenticate(&self, token: &str) -> Result<Option<String>, String> {
        let found = now(self.tokens.authenticate(token, &["api".to_owned()]));
        let found = found.map(|identity| identity.map(|identity| identity.user.name.clone()));
        found.map_err(|error| error.0)
    }
}

fn jane() -> Result<Value, &'static str> {
    Ok(json!({"status": {"authenticated": true, "user": {"username": "jane", "groups": ["devs"]}}}))
}

#[track_caller]
fn check(status: Value, expected: Result<Option<&str>, &str>) {
    let found = fixture(&[Ok(json!({"status": status}))]).authenticate("t");
    let expected = expected
        .map(|user| user.map(str::to_owned))
        .map_err(str::to_owned);
    assert_eq!(found, expected);
}

#[test]
fn the_webhook_gets_the_token_and_the_audiences() {
    let fixture = fixture(&[jane()]);
    assert_eq!(fixture.authenticate("t"), Ok(Some("jane".to_owned())));
    assert_eq!(
        fixture.webhook.reviews.lock()[0],
        json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
               "spec": {"token": "t", "audiences": ["api"]}, "status": {"user": {}}})
    );
}

#[test]
fn the_status_decides() {
    let user = json!({"username": "jane"});
    check(json!({"authenticated": true, "user": user}), Ok(Some("jane")));
    check(
        json!({"authenticated": true, "user": user, "audiences": ["api", "x"]}),
        Ok(Some("jane")),
    );
    check(
        json!({"authenticated": true, "user": user, "audiences": ["x"]}),
        Ok(None),
    );
    check(json!({"authenticated": false}), Ok(None));
    check(json!({"error": "revoked"}), Err("revoked"));
}

#[test]
fn responses_are_cached_for_a_while_and_errors_are_not() {
    let fixture = fixture(&[Err("down"), jane(), Ok(json!({}))]);
    assert_eq!(fixture.authenticate("t"), Err("down".to_owned()));
    for _ in 0..2 {
        assert_eq!(fixture.authenticate("t"), Ok(Some("jane".to_owned())));
    }
    fixture.clock.advance(120);
    assert_eq!(fixture.authenticate("t"), Ok(None));
    assert_eq!(fixture.webhook.reviews.lock().len(), 3);
}

#[test]
fn an_unknown_version_is_rejected() {
    let options = WebhookTokenOptions {
        version: "v2".to_owned(),
        cache_ttl: Duration::ZERO,
        api_audiences: Vec::new(),
    };
    let clock = ManualClock::at("2026-01-01T00:00:00Z");
    let rejected = WebhookTokens::new(options, Box::new(Arc::new(TestWebhook::default())), clock);
    assert_eq!(
        rejected.unwrap_err(),
        r#"unsupported authentication webhook version "v2", supported versions are "v1", "v1beta1""#
    );
}
