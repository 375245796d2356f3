//! Rows of plans: a pod, what the runtime has of it, and the actions.

use std::collections::HashMap;

use serde_json::{Value, json};
use setpoint_container_runtime::{ExitStatus, PodIdentity, SandboxId, SandboxRecord, SandboxState};

use super::*;
use crate::probes::{ContainerProbes, ProbeResults};

/// The time of all plans, in seconds.
const NOW: i64 = 100;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A pod with the containers `init:` and `side:` before and `name` beside each other.
fn pod(policy: &str, containers: &str) -> Value {
    let (mut init, mut regular) = (Vec::new(), Vec::new());
    for name in containers.split_whitespace() {
        match name.split_once(':') {
            Some(("init", name)) => init.push(json!({"name": name, "image": "i"})),
            Some(("side", name)) => {
                init.push(json!({"name": name, "image": "i", "restartPolicy": "Always"}));
            }
            _ => regular.push(json!({"name": name, "image": "i"})),
        }
    }
    let spec = json!({"restartPolicy": policy, "containers": regular, "initContainers": init});
    json!({"metadata": {"namespace": "default", "name": "p", "uid": "u"}, "spec": spec})
}

/// What the runtime has, in words: `ready` or `stopped` is the sandbox; `a=running`, `a=exit:3` is a container, which
/// exited at second 99 after its second restart.
fn observed(words: &str) -> ObservedPod {
    let mut observed = ObservedPod::default();
    for word in words.split_whitespace() {
        match word.split_once('=') {
            None => observed.sandboxes.push(sandbox(word)),
            Some((name, state)) => observed.containers.push(container(name, state)),
        }
    }
    observed
}

fn sandbox(state: &str) -> SandboxRecord {
    SandboxRecord {
        id: SandboxId("s".to_owned()),
        pod: PodIdentity {
            node: String::new(),
            namespace: "default".to_owned(),
            name: "p".to_owned(),
            uid: "u".to_owned(),
        },
        attempt: 0,
        state: match state {
            "ready" => SandboxState::Ready,
            _ => SandboxState::NotReady,
        },
        created_at: at(0),
        addresses: vec![[10, 0, 0, 1].into()],
    }
}

fn container(name: &str, state: &str) -> ContainerRecord {
    let state = match state.split_once(':') {
        Some((_, code)) => ContainerState::Exited(ExitStatus {
            started_at: at(0),
            finished_at: at(NOW - 1),
            exit_code: code.parse().unwrap(),
            reason: String::new(),
            message: String::new(),
        }),
        None if state == "created" => ContainerState::Created,
        None if state == "unknown" => ContainerState::Unknown,
        None => ContainerState::Running { started_at: at(0) },
    };
    ContainerRecord {
        id: ContainerId(name.to_owned()),
        sandbox: SandboxId("s".to_owned()),
        name: name.to_owned(),
        attempt: 0,
        image: "i".to_owned(),
        image_id: String::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        created_at: at(0),
        state,
        log_path: String::new(),
        resources: None,
        user: None,
    }
}

fn shown(pod: &BoundPod, plan: &Plan) -> String {
    let mut words = Vec::new();
    words.extend(plan.kill_pod.then(|| "kill-pod".to_owned()));
    words.extend(
        plan.kills
            .iter()
            .map(|kill| format!("kill {} ({})", kill.name, kill.message)),
    );
    words.extend(plan.sandbox.map(|attempt| format!("sandbox {attempt}")));
    let name = |start: &ContainerIndex| format!("start {}", pod.container(*start).name);
    words.extend(plan.starts.iter().map(name));
    let wait = |(name, waiting): (&String, &WaitingReason)| format!("{name} waits: {}", waiting.reason);
    words.extend(plan.waiting.iter().map(wait));
    words.extend(plan.next.map(|next| format!("next {}", next.as_second() - NOW)));
    words.join(", ")
}

#[track_caller]
fn check_with(
    pod: Value,
    runtime: &str,
    probes: &ProbeResults,
    backoffs: &BTreeMap<String, Backoff>,
    expected: &str,
) {
    let (pod, observed) = (
        BoundPod::new(serde_json::from_value(pod).unwrap()),
        observed(runtime),
    );
    let plan = plan(PlanInput {
        pod: &pod,
        observed: &observed,
        probes,
        backoffs,
        retries: &BTreeMap::new(),
        now: at(NOW),
    });
    assert_eq!(shown(&pod, &plan), expected);
}

#[track_caller]
fn check(policy: &str, containers: &str, runtime: &str, expected: &str) {
    let pod = pod(policy, containers);
    check_with(pod, runtime, &ProbeResults::default(), &BTreeMap::new(), expected);
}

/// FL6
#[test]
fn a_new_pod_gets_a_sandbox_and_its_containers() {
    check("Always", "a b", "", "sandbox 0, start a, start b");
    check("Always", "a b", "ready a=running", "start b");
    check("Always", "a b", "ready a=running b=running", "");
}

#[test]
fn init_containers_run_one_after_the_other_and_first() {
    check("Always", "init:i init:j a", "", "sandbox 0, start i");
    check("Always", "init:i init:j a", "ready i=running", "");
    check("Always", "init:i init:j a", "ready i=exit:0", "start j");
    check("Always", "init:i init:j a", "ready i=exit:0 j=exit:0", "start a");
    check("Always", "init:i init:j a", "ready a=running", "");
}

#[test]
fn an_init_container_that_fails_is_restarted_or_fails_the_pod() {
    check("Always", "init:i a", "ready i=exit:1", "start i");
    check("Never", "init:i a", "ready i=exit:1", "kill-pod");
    check("Never", "init:i a", "stopped i=exit:1", "");
}

#[test]
fn a_sidecar_runs_beside_the_others_and_does_not_keep_the_pod_alive() {
    check("Always", "side:s a", "ready s=running", "start a");
    check("Always", "side:s a", "ready s=exit:1 a=running", "start s");
    check("Never", "side:s a", "ready s=running a=exit:0", "kill-pod");
    check("Never", "side:s a", "stopped s=exit:0 a=exit:0", "");
}

#[test]
fn fl8_an_exited_container_is_restarted_by_its_policy() {
    check("Always", "a", "ready a=exit:0", "start a");
    check("OnFailure", "a", "ready a=exit:1", "start a");
    check("OnFailure", "a", "ready a=exit:0", "kill-pod");
    check("Never", "a b", "ready a=exit:1 b=running", "");
    check("Never", "a", "ready a=exit:1", "kill-pod");
    check("Never", "a", "stopped a=exit:1", "");
}

#[test]
fn a_pod_without_a_usable_sandbox_starts_over() {
    check("Always", "a", "stopped a=running", "kill-pod, sandbox 1, start a");
    check(
        "Always",
        "init:i a",
        "stopped i=exit:0 a=exit:0",
        "sandbox 1, start i",
    );
    check(
        "OnFailure",
        "a b",
        "stopped a=exit:0 b=exit:1",
        "sandbox 1, start b",
    );
    check("Never", "a", "stopped", "sandbox 1, start a");
}

#[test]
fn a_container_of_unknown_state_is_stopped_before_it_is_restarted() {
    let message = "Container is in \"Unknown\" state, try killing it before restart";
    check(
        "Always",
        "a",
        "ready a=unknown",
        &format!("kill a ({message}), start a"),
    );
}

#[test]
fn a_restart_waits_for_its_backoff() {
    let backoffs = BTreeMap::from([("a".to_owned(), Backoff::after(None, at(90), at(90)))]);
    let expected = "start b, a waits: CrashLoopBackOff, next 9";
    let pod = pod("Always", "a b");
    check_with(
        pod,
        "ready a=exit:1 b=exit:1",
        &ProbeResults::default(),
        &backoffs,
        expected,
    );
}

#[test]
fn a_container_whose_probe_fails_is_restarted() {
    let failed = ContainerProbes {
        liveness: Some(false),
        ..ContainerProbes::default()
    };
    let probes = ProbeResults {
        by_container: HashMap::from([(ContainerId("a".to_owned()), failed)]),
        ..ProbeResults::default()
    };
    let expected = "kill a (Container a failed liveness probe, will be restarted), start a";
    check_with(
        pod("Always", "a"),
        "ready a=running",
        &probes,
        &BTreeMap::new(),
        expected,
    );
    let expected = "kill a (Container a failed liveness probe)";
    check_with(
        pod("Never", "a b"),
        "ready a=running b=running",
        &probes,
        &BTreeMap::new(),
        expected,
    );
}

#[test]
fn a_container_that_its_probe_kills_again_waits_for_the_backoff() {
    let failed = ContainerProbes {
        liveness: Some(false),
        ..ContainerProbes::default()
    };
    let probes = ProbeResults {
        default: failed,
        ..ProbeResults::default()
    };
    let backoffs = BTreeMap::from([("a".to_owned(), Backoff::after(None, at(90), at(90)))]);
    let expected =
        "kill a (Container a failed liveness probe, will be restarted), a waits: CrashLoopBackOff, next 9";
    check_with(
        pod("Always", "a"),
        "ready a=running a=exit:137",
        &probes,
        &backoffs,
        expected,
    );
}

#[test]
fn an_ephemeral_container_is_started_once() {
    let mut pod = pod("Always", "a");
    pod["spec"]["ephemeralContainers"] = json!([{"name": "debug", "image": "i"}]);
    let none = (ProbeResults::default(), BTreeMap::new());
    check_with(pod.clone(), "ready a=running", &none.0, &none.1, "start debug");
    check_with(pod, "ready a=running debug=exit:1", &none.0, &none.1, "");
}
