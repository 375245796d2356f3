//! Table tests: a Job and its pods in, the plan out.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use setpoint_api::{Header, Key, Stored};

use super::super::tracking::after_release;
use super::*;

const NOW: i64 = 1_000_000;

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

fn job(spec: &Value) -> Job {
    let mut whole = json!({
        "parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed",
        "podReplacementPolicy": "TerminatingOrFailed",
        "selector": {"matchLabels": {"job": "a"}},
        "template": {"spec": {"containers": [], "restartPolicy": "Never"}},
    });
    for (name, value) in spec.as_object().unwrap() {
        whole[name] = value.clone();
    }
    serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "default"}, "spec": whole})).unwrap()
}

/// A pod from words: its name, then a phase, `index=<n>`, `failures=<n>`, `exit=<code>`, `ended=<seconds ago>`,
/// `deleting`, `counted`.
fn pod(words: &str) -> Pod {
    let mut words = words.split_whitespace();
    let name = words.next().unwrap();
    let mut header = Header::new(Key::new("default", name));
    header.uid = name.into();
    let mut pod = json!({"metadata": {"finalizers": [pod_tracker()], "annotations": {}}, "status": {"phase": "Running"}});
    let (mut exit, mut ended) = (1, 3600);
    for word in words {
        match word.split_once('=') {
            Some(("index", value)) => pod["metadata"]["annotations"][super::super::pod::INDEX] = json!(value),
            Some(("failures", value)) => {
                pod["metadata"]["annotations"][super::super::pod::FAILURES] = json!(value)
            }
            Some(("exit", value)) => exit = value.parse().unwrap(),
            Some(("ended", value)) => ended = value.parse().unwrap(),
            None if word == "deleting" => header.deleting = true,
            None if word == "counted" => pod["metadata"]["finalizers"] = json!([]),
            _ => pod["status"]["phase"] = json!(word),
        }
    }
    if pod["status"]["phase"] == "Failed" {
        let at = Timestamp::from_second(NOW - ended).unwrap().to_string();
        let state = json!({"terminated": {"exitCode": exit, "finishedAt": at}});
        pod["status"]["containerStatuses"] = json!([{"name": "main", "state": state}]);
    }
    let stored = Stored::new(header, pod.to_string().into(), 1);
    Pod::read(Arc::new(stored))
}

fn pod_tracker() -> &'static str {
    super::super::pod::TRACKER
}

/// The plan as text.
fn shown(plan: &Plan<'_>) -> String {
    let mut words = Vec::new();
    let indexes: Vec<String> = plan
        .create
        .iter()
        .filter_map(|(index, _)| Some(index.as_ref()?.to_string()))
        .collect();
    match (plan.create.len(), indexes.is_empty()) {
        (0, _) => {}
        (count, true) => words.push(format!("create {count}")),
        (_, false) => words.push(format!("create {}", indexes.join(","))),
    }
    if !plan.delete.is_empty() {
        words.push(format!("delete {}", plan.delete.len()));
    }
    if let Some(end) = &plan.end {
        words.push(format!(
            "{} {}",
            end.type_,
            end.reason.as_deref().unwrap_or_default()
        ));
    }
    if let Some(wait) = plan.recheck {
        words.push(format!("wait {}", wait.as_secs()));
    }
    words.join("; ")
}

#[track_caller]
fn check(spec: &Value, pods: &[&str], expected: &str) {
    let (job, pods) = (job(spec), pods.iter().map(|words| pod(words)).collect::<Vec<_>>());
    assert_eq!(shown(&plan(now(), &job, &pods).unwrap()), expected);
}

#[test]
fn as_many_pods_run_as_may_and_no_more_than_are_needed() {
    check(&json!({}), &[], "create 1");
    check(&json!({"parallelism": 3, "completions": 5}), &["a"], "create 2");
    check(
        &json!({"parallelism": 3, "completions": 5}),
        &["a Succeeded", "b Succeeded", "c Succeeded", "d"],
        "create 1",
    );
    check(
        &json!({"parallelism": 3, "completions": 2}),
        &["a", "b", "c"],
        "delete 1",
    );
    check(
        &json!({"parallelism": 2, "completions": null}),
        &["a Succeeded", "b"],
        "",
    );
    check(&json!({"parallelism": 0}), &[], "");
}

#[test]
fn enough_successes_complete_a_job() {
    check(&json!({}), &["a Succeeded"], "Complete CompletionsReached");
    check(
        &json!({"completions": 2}),
        &["a Succeeded", "b Succeeded"],
        "Complete CompletionsReached",
    );
    check(
        &json!({"parallelism": 2, "completions": null}),
        &["a Succeeded"],
        "Complete CompletionsReached",
    );
}

#[test]
fn a_failed_pod_is_replaced_later_each_time() {
    check(&json!({}), &["a Failed ended=3"], "wait 7");
    check(&json!({}), &["a Failed ended=30", "b Failed ended=3"], "wait 17");
    check(&json!({}), &["a Failed ended=10"], "create 1");
    check(&json!({}), &["a deleting"], "create 1");
}

#[test]
fn too_many_failures_end_a_job() {
    check(
        &json!({"backoffLimit": 1, "parallelism": 2, "completions": 2}),
        &["a Failed", "b Failed", "c"],
        "delete 1; Failed BackoffLimitExceeded",
    );
    check(
        &json!({"backoffLimit": 0}),
        &["a Failed"],
        "Failed BackoffLimitExceeded",
    );
}

#[test]
fn a_policy_may_ignore_a_failure_or_end_the_job() {
    let rule = |action: &str| {
        json!({"backoffLimit": 0, "podFailurePolicy": {"rules": [
            {"action": action, "onExitCodes": {"operator": "In", "values": [42]}},
        ]}})
    };
    check(&rule("Ignore"), &["a Failed exit=42"], "create 1");
    check(
        &rule("Ignore"),
        &["a Failed exit=1"],
        "Failed BackoffLimitExceeded",
    );
    check(&rule("FailJob"), &["a Failed exit=42"], "Failed PodFailurePolicy");
    let (job, pods) = (job(&rule("FailJob")), [pod("a Failed exit=42")]);
    let message = plan(now(), &job, &pods).unwrap().end.unwrap().message.unwrap();
    assert_eq!(
        message,
        "Container main for pod default/a failed with exit code 42 matching FailJob rule at index 0"
    );
}

#[test]
fn each_index_has_one_pod_until_it_has_succeeded() {
    let spec = json!({"completionMode": "Indexed", "parallelism": 3, "completions": 4});
    check(&spec, &[], "create 0,1,2");
    check(&spec, &["a index=1", "b index=0 Succeeded"], "create 2,3");
    check(&spec, &["a index=1", "b index=1"], "delete 1");
    check(&spec, &["a index=7"], "delete 1");
}

#[test]
fn an_index_with_a_limit_of_its_own_fails_alone() {
    let spec = json!({"completionMode": "Indexed", "parallelism": 2, "completions": 2, "backoffLimitPerIndex": 1, "backoffLimit": 99});
    check(&spec, &["a index=0 Failed failures=0", "b index=1"], "create 0");
    check(
        &spec,
        &["a index=0 Failed failures=0 ended=4", "b index=1"],
        "wait 6",
    );
    check(&spec, &["a index=0 Failed failures=1", "b index=1"], "");
    check(
        &spec,
        &["a index=0 Failed failures=1", "b index=1 Succeeded"],
        "Failed FailedIndexes",
    );
}

#[test]
fn a_success_policy_ends_a_job_early() {
    let spec = json!({"completionMode": "Indexed", "parallelism": 3, "completions": 3,
        "successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]}});
    check(
        &spec,
        &["a index=1 Succeeded", "b index=0", "c index=2"],
        "delete 2; Complete SuccessPolicy",
    );
    check(&spec, &["a index=2 Succeeded", "b index=0", "c index=1"], "");
}

#[test]
fn a_suspended_job_has_no_pods() {
    check(
        &json!({"suspend": true, "parallelism": 2, "completions": 2}),
        &["a", "b"],
        "delete 2",
    );
    let job = job(&json!({"suspend": true}));
    let plan = plan(now(), &job, &[]).unwrap();
    assert_eq!(
        (plan.suspend_change, plan.status.start_time),
        (Some(SuspendChange::Suspended), None)
    );
}

#[test]
fn a_job_that_is_active_for_too_long_fails() {
    let mut late = job(&json!({"activeDeadlineSeconds": 60}));
    let start = |seconds| api_time::from_timestamp(Timestamp::from_second(NOW - seconds).unwrap());
    late.status.get_or_insert_default().start_time = Some(start(60));
    let pods = [pod("a")];
    assert_eq!(
        shown(&plan(now(), &late, &pods).unwrap()),
        "delete 1; Failed DeadlineExceeded"
    );
    late.status.get_or_insert_default().start_time = Some(start(20));
    assert_eq!(shown(&plan(now(), &late, &pods).unwrap()), "wait 40");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However the steps are interrupted, each finished pod is counted once, no more pods run than allowed, and the Job
    /// completes.
    #[test]
    fn every_end_is_counted_once_and_the_job_converges(
        parallelism in 1..6i32,
        completions in 1..12i32,
        is_indexed: bool,
        fates in prop::collection::vec(prop::bool::weighted(0.8), 1..60),
        interrupts in prop::collection::vec(0..4u8, 1..60),
    ) {
        let mode = if is_indexed { "Indexed" } else { "NonIndexed" };
        let mut job = job(&json!({"parallelism": parallelism, "completions": completions, "completionMode": mode, "backoffLimit": 1000}));
        // Name, index, phase, whether tracked.
        let mut pod_states: Vec<(String, Option<u32>, &str, bool)> = Vec::new();
        let (mut created, mut failed) = (0, 0);
        for round in 0..400 {
            let words: Vec<String> = pod_states.iter().map(|(name, index, phase, tracked)| {
                let index = index.map_or(String::new(), |index| format!("index={index}"));
                format!("{name} {phase} {index} {}", if *tracked { "" } else { "counted" })
            }).collect();
            let pods: Vec<Pod> = words.iter().map(|words| pod(words)).collect();
            if is_finished(&job) {
                break;
            }
            let current = job.clone();
            let plan = plan(now(), &current, &pods).unwrap();
            let active = pods.iter().filter(|pod| pod.pod.is_active()).count();
            prop_assert!(active - plan.delete.len() + plan.create.len() <= usize::try_from(parallelism).unwrap());
            let interrupt = interrupts[round % interrupts.len()];
            for victim in &plan.delete {
                let uid = victim.uid().to_owned();
                pod_states.retain(|(name, ..)| *name != uid);
            }
            for (index, _) in &plan.create {
                created += 1;
                pod_states.push((format!("p{created}"), *index, "Running", true));
            }
            if interrupt > 0 {
                job.status = Some(plan.status.clone());
            }
            if interrupt > 1 {
                let released: Vec<&str> = plan.release.iter().map(|pod| pod.uid()).collect();
                for (name, _, _, tracked) in &mut pod_states {
                    *tracked &= !released.contains(&name.as_str());
                }
            }
            if interrupt > 2 {
                let tracked = pod_states.iter().filter(|(.., tracked)| *tracked).map(|(name, ..)| name.clone()).collect();
                job.status = Some(after_release(&plan, &tracked).0);
            }
            if let Some(running) = pod_states.iter_mut().find(|(_, _, phase, _)| *phase == "Running") {
                let succeeds = fates[round % fates.len()] || failed > 20;
                running.2 = if succeeds { "Succeeded" } else { "Failed" };
                failed += i32::from(!succeeds);
            }
        }
        if interrupts.contains(&3) {
            let status = job.status.clone().unwrap();
            prop_assert!(is_finished(&job), "{status:?}");
            prop_assert!(status.succeeded.unwrap_or(0) >= completions);
            prop_assert_eq!(status.failed.unwrap_or(0), failed);
        }
    }
}
