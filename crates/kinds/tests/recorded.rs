//! Validation against responses recorded from Kubernetes: each recorded create is run through its kind alone, without
//! a server, and a rejected object must be rejected with the same causes in the same order.
//!
//! `RECORDED=Pod` shows the differences of the cases whose id contains the text.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a test says what differs")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use setpoint_api::call::Encoding;
use setpoint_api::field::Errors;
use setpoint_api::options::FieldValidation;
use setpoint_api::{Status, User};
use setpoint_codec::strict;
use setpoint_strategy::{Kind, Kinds, RequestFacts, meta};

/// How many of the recorded creates must agree. It only ever goes up.
const FLOOR: usize = 776;
/// The uid that the recordings replace by `<uid>`.
const UID: &str = "a2b3c4d5-0000-4000-8000-000000000001";

#[test]
fn recorded_rejections_are_reproduced() {
    let text = setpoint_reference::transcript("validation");
    let filter = std::env::var("RECORDED").unwrap_or_default();
    let kinds = setpoint_kinds::builtin();
    let (mut compared, mut agreed) = (0, 0);
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let id = case["id"].as_str().unwrap();
        let Some((actual, expected)) = compare(&kinds, &case["steps"][0]) else {
            continue;
        };
        compared += 1;
        if actual == expected {
            agreed += 1;
        } else if !filter.is_empty() && id.contains(&filter) {
            eprintln!(
                "{id}\n  body: {}\n  ours: {actual:#}\n  theirs: {expected:#}",
                case["steps"][0]["body"]
            );
        }
    }
    eprintln!("{agreed} of {compared} recorded creates agree");
    assert!(
        agreed >= FLOOR,
        "{agreed} of {compared} agree, and {FLOOR} did before"
    );
}

/// The outcome of a create by the kind, and by Kubernetes; `None` if the kind alone does not decide it.
fn compare(kinds: &Kinds, step: &Value) -> Option<(Value, Value)> {
    let expect = &step["expect"];
    let status = expect["status"].as_u64()?;
    let path = step["path"].as_str()?;
    if !matches!(status, 201 | 400 | 422) || path.contains('?') {
        return None;
    }
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let (namespace, plural) = match rest {
        ["namespaces", namespace, plural] => (*namespace, *plural),
        [plural] => ("", *plural),
        _ => return None,
    };
    let kind = kinds.iter().find(|kind| {
        let gvr = &kind.info().gvr;
        gvr.group == group && gvr.version == version && gvr.resource == plural
    })?;
    let expected = match status {
        201 => json!({"accepted": true}),
        _ => json!({"message": expect["body"]["message"], "causes": expect["body"]["details"]["causes"]}),
    };
    Some((create(&**kind, namespace, step["body"].as_str()?), expected))
}

fn create(kind: &dyn Kind, namespace: &str, body: &str) -> Value {
    let bytes = Bytes::from(body.to_owned());
    let decoded = strict::decode(&bytes, Encoding::Json, kind.shape(), FieldValidation::Warn);
    let mut tree = match decoded {
        Ok(decoded) => decoded.tree,
        Err(error) => return rejected(&Status::bad_request(error.to_string())),
    };
    if let Err(problem) = kind.prepare_input(&mut tree) {
        return json!({"problem": problem.to_string()});
    }
    meta::set(&mut tree, "uid", UID);
    if kind.info().is_namespaced() {
        meta::set(&mut tree, "namespace", namespace);
    }
    kind.prepare_create(&mut tree, &facts());
    let errors = Errors::default();
    kind.validate(&tree, &facts(), &errors);
    if errors.is_empty() {
        return json!({"accepted": true});
    }
    rejected(&Status::invalid(
        kind.stored_kind(),
        meta::name(&tree),
        &errors.into_vec(),
    ))
}

fn rejected(status: &Status) -> Value {
    let status = serde_json::to_string(status).unwrap().replace(UID, "<uid>");
    let status: Value = serde_json::from_str(&status).unwrap();
    json!({"message": status["message"], "causes": status["details"]["causes"]})
}

fn facts() -> RequestFacts {
    RequestFacts {
        now: "2026-01-02T03:04:05Z".parse().unwrap(),
        user: Arc::new(User::component("tester")),
        event_ttl: Duration::from_secs(3600),
        allow_privileged: false,
    }
}
