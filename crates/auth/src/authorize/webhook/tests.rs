//! Decisions of a webhook whose responses are in memory.

use serde_json::{Value, json};

use super::*;
use crate::authorize::{AlwaysAllow, Chain};
use crate::fixtures::{ManualClock, TestWebhook, now};

const PODS: AccessTarget<'static> = AccessTarget::Resource {
    group: "",
    resource: "pods",
    subresource: "",
    namespace: "n",
    name: "",
};

fn options(version: &str, failure_policy: FailurePolicy) -> WebhookOptions {
    WebhookOptions {
        version: version.to_owned(),
        authorized_ttl: Duration::from_secs(300),
        unauthorized_ttl: Duration::from_secs(30),
        failure_policy,
        match_conditions: MatchConditions::default(),
    }
}

fn webhook(
    options: WebhookOptions,
    responses: &[Result<Value, &'static str>],
) -> (WebhookAuthorizer, Arc<TestWebhook>, Arc<ManualClock>) {
    let webhook = Arc::new(TestWebhook::default());
    *webhook.responses.lock() = responses.to_vec();
    let clock = ManualClock::at("2026-01-01T00:00:00Z");
    let authorizer = WebhookAuthorizer::new(options, Box::new(webhook.clone()), clock.clone());
    (authorizer.unwrap(), webhook, clock)
}

fn jane() -> User {
    User::new("jane", &["devs"])
}

fn list() -> Attributes<'static> {
    Attributes {
        version: "v1",
        ..Attributes::new("list", PODS)
    }
}

/// The decision and its reason in one word each.
fn decide(authorizer: &dyn Authorize, attributes: &Attributes<'_>) -> String {
    let decision = now(authorizer.authorize(&jane(), attributes).resolve());
    let word = match &decision {
        Decision::Allowed(_) => "allowed",
        Decision::Denied(_) => "denied",
        Decision::NoOpinion(_) => "none",
    };
    format!("{word} {}", decision.reason())
}

#[track_caller]
fn check(policy: FailurePolicy, response: Result<Value, &'static str>, expected: &str) {
    let response = response.map(|status| json!({"status": status}));
    let (authorizer, ..) = webhook(options("v1", policy), &[response]);
    assert_eq!(decide(&authorizer, &list()), expected);
}

#[test]
fn the_status_decides() {
    let policy = FailurePolicy::NoOpinion;
    check(policy, Ok(json!({"allowed": true, "reason": "x"})), "allowed x");
    check(policy, Ok(json!({"allowed": false, "reason": "x"})), "none x");
    check(
        policy,
        Ok(json!({"allowed": false, "denied": true, "reason": "x"})),
        "denied x",
    );
    check(
        policy,
        Ok(json!({"allowed": true, "denied": true})),
        "denied webhook subject access review returned both allow and deny response",
    );
}

#[test]
fn the_failure_policy_decides_if_the_webhook_cannot_be_called() {
    check(FailurePolicy::NoOpinion, Err("refused"), "none refused");
    check(FailurePolicy::Deny, Err("refused"), "denied refused");
}

#[test]
fn a_failed_webhook_is_an_internal_error_unless_another_authorizer_allows_the_request() {
    let chain = |policy: FailurePolicy, last: bool| {
        let (authorizer, ..) = webhook(options("v1", policy), &[Err("refused")]);
        let mut chain = Chain::privileged();
        chain.push("hook", authorizer);
        if last {
            chain.push("alwaysallow", AlwaysAllow);
        }
        now(super::super::check(&chain, &jane(), &list()))
            .err()
            .map(|status| status.code)
    };
    assert_eq!(chain(FailurePolicy::NoOpinion, true), None);
    assert_eq!(chain(FailurePolicy::NoOpinion, false), Some(500));
    assert_eq!(chain(FailurePolicy::Deny, true), Some(500));
}

#[test]
fn the_webhook_gets_the_user_and_the_request() {
    let allowed = || Ok(json!({"status": {"allowed": true}}));
    let (authorizer, hook, _) = webhook(options("v1", FailurePolicy::Deny), &[allowed(), allowed()]);
    let fields: FieldSelector = "spec.nodeName=n1".parse().unwrap();
    let selected = Attributes {
        fields: Some(&fields),
        ..list()
    };
    decide(&authorizer, &selected);
    decide(
        &authorizer,
        &Attributes::new("get", AccessTarget::Path("/metrics")),
    );
    let reviews = hook.reviews.lock();
    assert_eq!(
        reviews[0],
        json!({"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": {
            "resourceAttributes": {"namespace": "n", "verb": "list", "version": "v1", "resource": "pods",
                "fieldSelector": {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]}},
            "user": "jane", "groups": ["devs"]}, "status": {"allowed": false}})
    );
    assert_eq!(
        reviews[1]["spec"]["nonResourceAttributes"],
        json!({"path": "/metrics", "verb": "get"})
    );
}

#[test]
fn groups_have_another_name_in_v1beta1() {
    let (authorizer, hook, _) = webhook(
        options("v1beta1", FailurePolicy::Deny),
        &[Ok(json!({"status": {"allowed": true}}))],
    );
    decide(&authorizer, &list());
    assert_eq!(hook.reviews.lock()[0]["spec"]["group"], json!(["devs"]));
}

#[test]
fn responses_are_cached_by_their_outcome_and_errors_are_not() {
    let (authorizer, hook, clock) = webhook(
        options("v1", FailurePolicy::NoOpinion),
        &[
            Err("refused"),
            Ok(json!({"status": {"allowed": true}})),
            Ok(json!({"status": {"allowed": false}})),
            Ok(json!({"status": {"allowed": true}})),
        ],
    );
    assert_eq!(decide(&authorizer, &list()), "none refused");
    assert_eq!(decide(&authorizer, &list()), "allowed ");
    clock.advance(299);
    assert_eq!(decide(&authorizer, &list()), "allowed ");
    clock.advance(1);
    assert_eq!(decide(&authorizer, &list()), "none ");
    clock.advance(30);
    assert_eq!(decide(&authorizer, &list()), "allowed ");
    assert_eq!(hook.reviews.lock().len(), 4);
}

#[test]
fn a_webhook_is_called_only_for_requests_that_meet_its_conditions() {
    let conditions = |source: &str| {
        let errors = setpoint_api::field::Errors::default();
        MatchConditions::compile(&[source.to_owned()], &errors)
    };
    let decision = |source: &str| {
        let options = WebhookOptions {
            match_conditions: conditions(source),
            ..options("v1", FailurePolicy::Deny)
        };
        let (authorizer, ..) = webhook(options, &[Ok(json!({"status": {"allowed": true}}))]);
        decide(&authorizer, &list())
    };
    assert_eq!(decision("request.user == 'jane'"), "allowed ");
    assert_eq!(decision("request.user == 'joe'"), "none ");
    assert_eq!(
        decision("request.nonResourceAttributes.path == '/'"),
        "denied cel evaluation error: expression 'request.nonResourceAttributes.path == '/'' resulted in error: no such key: nonResourceAttributes"
    );
}
