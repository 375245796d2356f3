//! Rows of statuses: a pod, what the runtime has of it, and the status reported at second 60.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use setpoint_container_runtime::{
    ContainerId, ContainerRecord, ContainerState, ExitStatus, PodIdentity, SandboxId, SandboxRecord,
    SandboxState,
};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn pod() -> Value {
    json!({
        "metadata": {"name": "p", "uid": "u", "generation": 2},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

fn sandbox(state: SandboxState) -> SandboxRecord {
    SandboxRecord {
        id: SandboxId("s".to_owned()),
        pod: PodIdentity {
            node: String::new(),
            namespace: String::new(),
            name: "p".to_owned(),
            uid: "u".to_owned(),
        },
        attempt: 0,
        state,
        created_at: at(30),
        addresses: vec![[10, 64, 0, 1].into()],
    }
}

fn container(name: &str, attempt: u32, state: ContainerState) -> ContainerRecord {
    ContainerRecord {
        id: ContainerId(format!("{name}{attempt}")),
        sandbox: SandboxId("s".to_owned()),
        name: name.to_owned(),
        attempt,
        image: "i".to_owned(),
        image_id: "id".to_owned(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        created_at: at(30 + i64::from(attempt)),
        state,
        log_path: String::new(),
        resources: None,
        user: None,
    }
}

fn running() -> ContainerState {
    ContainerState::Running { started_at: at(30) }
}

fn exited(exit_code: i32) -> ContainerState {
    ContainerState::Exited(ExitStatus {
        started_at: at(30),
        finished_at: at(50),
        exit_code,
        reason: if exit_code == 0 { "Completed" } else { "Error" }.to_owned(),
        message: String::new(),
    })
}

/// The status of a pod whose newest containers come first.
fn status_of(pod: Value, state: SandboxState, containers: Vec<ContainerRecord>) -> Value {
    let observed = ObservedPod {
        sandboxes: vec![sandbox(state)],
        containers,
    };
    status_with(pod, &observed, &BTreeMap::new())
}

fn status_with(pod: Value, observed: &ObservedPod, waiting: &BTreeMap<String, WaitingReason>) -> Value {
    let pod = BoundPod::new(serde_json::from_value(pod).unwrap());
    let status = pod_status(StatusInput {
        pod: &pod,
        observed,
        probes: &ProbeResults::default(),
        waiting,
        failure: None,
        actuated: &ActuatedResources::new(),
        resize: None,
        host_addresses: &[[10, 16, 0, 1].into()],
        scheme: "simulated",
        is_ended: false,
        now: at(60),
    });
    serde_json::to_value(status).unwrap()
}

fn running_status(pod: Value) -> Value {
    status_of(pod, SandboxState::Ready, vec![container("c", 0, running())])
}

fn conditions(status: &Value) -> String {
    let shown = |one: &Value| {
        let words = [&one["type"], &one["status"], &one["reason"], &one["message"]];
        words
            .into_iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let conditions = status["conditions"].as_array().unwrap();
    conditions.iter().map(shown).collect::<Vec<_>>().join("; ")
}

/// FL6
#[test]
fn a_running_pod_reports_its_addresses_and_start_time() {
    let status = running_status(pod());
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["podIP"], "10.64.0.1");
    assert_eq!(status["hostIP"], "10.16.0.1");
    assert_eq!(status["startTime"], "1970-01-01T00:01:00Z");
    assert_eq!(status["observedGeneration"], 2);
    let container = &status["containerStatuses"][0];
    assert_eq!(
        (&container["ready"], &container["started"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(container["containerID"], "simulated://c0");
    assert_eq!(container["state"]["running"]["startedAt"], "1970-01-01T00:00:30Z");
}

/// FL6
#[test]
fn a_running_pod_meets_every_condition() {
    assert_eq!(
        conditions(&running_status(pod())),
        "PodReadyToStartContainers True; Initialized True; Ready True; ContainersReady True; PodScheduled True"
    );
}

#[test]
fn a_pod_whose_image_is_pulled_is_pending() {
    let status = status_of(pod(), SandboxState::Ready, Vec::new());
    assert_eq!(status["phase"], "Pending");
    assert_eq!(
        status["containerStatuses"][0]["state"]["waiting"]["reason"],
        "ContainerCreating"
    );
    let unready = "ContainersNotReady containers with unready status: [c]";
    let expected = format!(
        "PodReadyToStartContainers True; Initialized True; Ready False {unready}; ContainersReady False {unready}; \
         PodScheduled True"
    );
    assert_eq!(conditions(&status), expected);
}

#[test]
fn a_container_that_is_created_waits_for_its_start() {
    let reason = |pod: Value, name: &str, list: &str| {
        let created = container(name, 0, ContainerState::Created);
        let status = status_of(pod, SandboxState::Ready, vec![created]);
        status[list][0]["state"]["waiting"]["reason"].clone()
    };
    assert_eq!(reason(pod(), "c", "containerStatuses"), "ContainerCreating");
    let mut with_init = pod();
    with_init["spec"]["initContainers"] = json!([{ "name": "i", "image": "app" }]);
    assert_eq!(reason(with_init, "i", "initContainerStatuses"), "PodInitializing");
}

#[test]
fn fl8_a_terminated_pod_reports_its_exit_code_and_time() {
    let mut pod = pod();
    pod["spec"]["restartPolicy"] = json!("Never");
    let status = status_of(
        pod.clone(),
        SandboxState::NotReady,
        vec![container("c", 0, exited(3))],
    );
    assert_eq!(status["phase"], "Failed");
    let container_status = &status["containerStatuses"][0];
    assert_eq!(container_status["ready"], false);
    let terminated = &container_status["state"]["terminated"];
    assert_eq!(
        (&terminated["exitCode"], &terminated["reason"]),
        (&json!(3), &json!("Error"))
    );
    assert_eq!(terminated["startedAt"], "1970-01-01T00:00:30Z");
    assert_eq!(terminated["finishedAt"], "1970-01-01T00:00:50Z");
    assert_eq!(
        conditions(&status),
        "PodReadyToStartContainers False PodSandboxNotReady pod sandbox is not ready; Initialized True; \
         Ready False PodFailed; ContainersReady False PodFailed; PodScheduled True"
    );
    let status = status_of(pod, SandboxState::NotReady, vec![container("c", 0, exited(0))]);
    assert_eq!(status["phase"], "Succeeded");
    assert_eq!(status["conditions"][1]["reason"], "PodCompleted");
    assert_eq!(status["conditions"][2]["reason"], "PodCompleted");
}

#[test]
fn a_terminal_phase_waits_until_nothing_runs() {
    let mut pod = pod();
    pod["spec"]["restartPolicy"] = json!("Never");
    pod["status"] = json!({"phase": "Running"});
    let status = status_of(pod, SandboxState::Ready, vec![container("c", 0, exited(0))]);
    assert_eq!(status["phase"], "Running");
}

#[test]
fn a_crash_loop_shows_the_reason_the_last_exit_and_the_restarts() {
    let observed = ObservedPod {
        sandboxes: vec![sandbox(SandboxState::Ready)],
        containers: vec![container("c", 2, exited(1)), container("c", 1, exited(7))],
    };
    let waiting = BTreeMap::from([("c".to_owned(), WaitingReason::new("CrashLoopBackOff", "back-off"))]);
    let status = status_with(pod(), &observed, &waiting);
    assert_eq!(status["phase"], "Running");
    let container = &status["containerStatuses"][0];
    assert_eq!(
        container["state"]["waiting"],
        json!({"reason": "CrashLoopBackOff", "message": "back-off"})
    );
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(container["restartCount"], 2);
}

#[test]
fn a_restarted_container_shows_the_exit_before() {
    let containers = vec![container("c", 1, running()), container("c", 0, exited(7))];
    let status = status_of(pod(), SandboxState::Ready, containers);
    assert_eq!(
        status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"],
        7
    );
}

#[test]
fn a_condition_that_stays_keeps_its_time_and_those_of_others_are_kept() {
    let mut pod = pod();
    pod["status"] = json!({"conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:09Z"},
        {"type": "example.com/mine", "status": "False"},
    ]});
    let conditions = &running_status(pod)["conditions"];
    assert_eq!(conditions[0]["type"], "example.com/mine");
    assert_eq!(conditions[1]["lastTransitionTime"], "1970-01-01T00:01:00Z");
    assert_eq!(conditions[5]["lastTransitionTime"], "1970-01-01T00:00:09Z");
}

#[test]
fn an_open_readiness_gate_keeps_a_pod_from_being_ready() {
    let mut pod = pod();
    pod["spec"]["readinessGates"] = json!([{"conditionType": "example.com/mine"}]);
    let status = running_status(pod);
    assert_eq!(status["conditions"][2]["reason"], "ReadinessGatesNotReady");
    assert_eq!(
        status["conditions"][2]["message"],
        "corresponding condition of pod readiness gate \"example.com/mine\" does not exist."
    );
}

#[test]
fn a_container_is_ready_once_its_readiness_probe_succeeds() {
    let mut pod = pod();
    pod["spec"]["containers"][0]["readinessProbe"] = json!({"tcpSocket": {"port": 80}});
    let status = running_status(pod);
    let container = &status["containerStatuses"][0];
    assert_eq!(
        (&container["ready"], &container["started"]),
        (&json!(false), &json!(true))
    );
}

#[test]
fn an_init_container_has_completed_and_a_sidecar_runs() {
    let mut pod = pod();
    pod["spec"]["initContainers"] = json!([
        {"name": "once", "image": "i"},
        {"name": "beside", "image": "i", "restartPolicy": "Always"},
    ]);
    let containers = vec![
        container("c", 0, running()),
        container("beside", 0, running()),
        container("once", 0, exited(0)),
    ];
    let status = status_of(pod, SandboxState::Ready, containers);
    let states = &status["initContainerStatuses"];
    assert_eq!(states[0]["state"]["terminated"]["reason"], "Completed");
    assert!(states[1]["state"]["running"].is_object());
    assert_eq!(status["phase"], "Running");
}

#[test]
fn reporting_twice_gives_the_same_status() {
    let mut pod = pod();
    pod["status"] = running_status(pod.clone());
    assert_eq!(running_status(pod.clone()), pod["status"]);
}
