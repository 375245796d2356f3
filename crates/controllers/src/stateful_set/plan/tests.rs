//! Table tests: a set and its pods in, the plan out.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use setpoint_api::{Header, Key, Stored};

use super::*;

const NOW: i64 = 1_000_000;

fn set(spec: &Value) -> StatefulSet {
    let mut whole = json!({"selector": {}, "template": {}, "replicas": 3});
    for (name, value) in spec.as_object().unwrap() {
        whole[name] = value.clone();
    }
    serde_json::from_value(json!({"metadata": {"name": "db"}, "spec": whole})).unwrap()
}

/// A pod from words: its number, `old` or `new`, then `ready`, `failed`, `terminating`.
fn member(words: &str) -> Member {
    let has = |word: &str| words.contains(word);
    let ordinal: i32 = words.split(' ').next().unwrap().parse().unwrap();
    let mut header = Header::new(Key::new("default", &format!("db-{ordinal}")));
    header.deleting = has("terminating");
    let phase = match (has("failed"), has("pending")) {
        (true, _) => "Failed",
        (_, true) => "Pending",
        _ => "Running",
    };
    let since = Timestamp::from_second(NOW - 100).unwrap().to_string();
    let ready = if has("ready") { "True" } else { "False" };
    let body = json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}]}});
    Member {
        ordinal,
        pod: Pod::read(Arc::new(Stored::new(header, body.to_string().into(), 1))),
        revision: if has("old") { "old" } else { "new" }.to_owned(),
    }
}

fn planned(set: &StatefulSet, members: &[Member]) -> Vec<String> {
    let revisions = Revisions {
        current: "old",
        update: "new",
    };
    let plan = plan(Timestamp::from_second(NOW).unwrap(), set, members, revisions);
    let shown = |action: &Action<'_>| match action {
        Action::Create { ordinal, is_new } => {
            format!("create {ordinal}{}", if *is_new { "" } else { " old" })
        }
        Action::EnsureClaims(member) => format!("provide {}", member.ordinal),
        Action::Delete(member) => format!("delete {}", member.ordinal),
    };
    plan.actions.iter().map(shown).collect()
}

#[track_caller]
fn check(spec: &Value, pods: &[&str], expected: &str) {
    let members: Vec<Member> = pods.iter().map(|words| member(words)).collect();
    assert_eq!(planned(&set(spec), &members).join("; "), expected);
}

#[test]
fn pods_are_created_one_after_the_other() {
    check(&json!({}), &[], "create 0");
    check(&json!({}), &["0 new"], "");
    check(&json!({}), &["0 new ready"], "create 1");
    check(&json!({}), &["0 new ready", "1 new ready", "2 new ready"], "");
    check(
        &json!({"ordinals": {"start": 5}, "replicas": 2}),
        &["5 new ready"],
        "create 6",
    );
}

#[test]
fn with_parallel_management_all_are_created_at_once() {
    check(
        &json!({"podManagementPolicy": "Parallel"}),
        &["1 new"],
        "create 0; create 2",
    );
    check(
        &json!({"podManagementPolicy": "Parallel", "replicas": 0}),
        &["0 new ready", "1 new"],
        "delete 1; delete 0",
    );
}

#[test]
fn pods_are_deleted_one_after_the_other_from_the_highest_on() {
    let spec = json!({"replicas": 1});
    check(&spec, &["0 new ready", "1 new ready", "2 new ready"], "delete 2");
    check(
        &spec,
        &["0 new ready", "1 new ready", "2 new ready terminating"],
        "",
    );
    check(&spec, &["0 new", "1 new ready"], "");
    check(&spec, &["0 new ready", "1 new"], "delete 1");
}

#[test]
fn a_finished_pod_is_recreated() {
    check(&json!({}), &["0 new failed"], "delete 0");
    check(&json!({}), &["0 new failed terminating"], "");
}

#[test]
fn a_new_template_replaces_the_highest_first() {
    let all = ["0 old ready", "1 old ready", "2 old ready"];
    check(&json!({}), &all, "delete 2");
    check(&json!({}), &["0 old ready", "1 old ready", "2 new"], "");
    check(
        &json!({}),
        &["0 old ready", "1 old ready", "2 new ready"],
        "delete 1",
    );
    check(&json!({"updateStrategy": {"type": "OnDelete"}}), &all, "");
    let partition = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
    check(&partition, &["0 old ready", "1 old ready", "2 new ready"], "");
    check(&partition, &["0 old ready"], "create 1 old");
    let two = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}});
    check(&two, &all, "delete 2; delete 1");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// From any state the set converges to its ordinals, all of the newest template, and in order never more than one
    /// pod is missing or unavailable because of the plan.
    #[test]
    fn a_set_converges(replicas in 0..6i32, start in prop::collection::btree_map(0..8i32, any::<bool>(), 0..8), parallel: bool) {
        let policy = if parallel { "Parallel" } else { "OrderedReady" };
        let set = set(&json!({"replicas": replicas, "podManagementPolicy": policy}));
        let mut pod_states: std::collections::BTreeMap<i32, String> =
            start.into_iter().map(|(ordinal, new)| (ordinal, format!("{} ready", if new { "new" } else { "old" }))).collect();
        for _ in 0..100 {
            let members: Vec<Member> = pod_states.iter().map(|(ordinal, words)| member(&format!("{ordinal} {words}"))).collect();
            let actions = planned(&set, &members);
            if !parallel {
                prop_assert!(actions.len() <= 1, "{:?}", actions);
            }
            for words in pod_states.values_mut() {
                "new ready".clone_into(if words == "new" { words } else { continue });
            }
            for action in actions {
                let (verb, rest) = action.split_once(' ').unwrap();
                let ordinal: i32 = rest.split(' ').next().unwrap().parse().unwrap();
                match verb {
                    "create" => drop(pod_states.insert(ordinal, "new".to_owned())),
                    "delete" => drop(pod_states.remove(&ordinal)),
                    _ => {}
                }
            }
        }
        let expected: Vec<(i32, String)> = (0..replicas).map(|ordinal| (ordinal, "new ready".to_owned())).collect();
        prop_assert_eq!(pod_states.into_iter().collect::<Vec<_>>(), expected);
    }
}
