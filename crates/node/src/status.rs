//! The PodStatus of a started pod: pure.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStatus, HostIP, PodCondition,
    PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::config::Machine;
use crate::pod::{Container, Pod};
use crate::runtime::{ContainersState, Sandbox};

/// The status of a pod whose containers all run, or have all terminated. Fields that the agent does not set are kept.
pub(crate) fn pod_status(now: Timestamp, machine: &Machine, pod: &Pod, sandbox: &Sandbox) -> PodStatus {
    let old = pod.status.clone();
    let (host, address) = (machine.address().to_string(), sandbox.address.to_string());
    let (phase, conditions) = match sandbox.containers {
        ContainersState::Running { .. } => ("Running", conditions(now, pod, &old)),
        ContainersState::Terminated { exit_code: 0, .. } => {
            ("Succeeded", terminated_conditions(now, pod, &old, "PodCompleted"))
        }
        ContainersState::Terminated { .. } => ("Failed", terminated_conditions(now, pod, &old, "PodFailed")),
    };
    PodStatus {
        phase: Some(phase.to_owned()),
        observed_generation: pod.metadata.generation,
        conditions: Some(conditions),
        host_ip: Some(host.clone()),
        host_ips: Some(vec![HostIP { ip: host }]),
        pod_ip: Some(address.clone()),
        pod_ips: Some(vec![PodIP { ip: address }]),
        start_time: old.start_time.clone().or(Some(time(sandbox.started))),
        container_statuses: Some(containers(pod, sandbox)),
        init_container_statuses: init_containers(pod, sandbox),
        ..old
    }
}

fn containers(pod: &Pod, sandbox: &Sandbox) -> Vec<ContainerStatus> {
    let status = |one: &Container| match sandbox.containers {
        ContainersState::Running { since, restarts, .. } => ContainerStatus {
            restart_count: restarts,
            ..container(pod, one, sandbox, up(since))
        },
        ContainersState::Terminated { exit_code, at } => ContainerStatus {
            ready: false,
            ..container(pod, one, sandbox, terminated(pod, one, sandbox, (exit_code, at)))
        },
    };
    let mut statuses: Vec<_> = pod.spec.containers.iter().map(status).collect();
    statuses.sort_by(|a, b| a.name.cmp(&b.name));
    statuses
}

/// Sidecars are running, the others have completed.
fn init_containers(pod: &Pod, sandbox: &Sandbox) -> Option<Vec<ContainerStatus>> {
    let all = pod.spec.init_containers.as_ref()?;
    let status = |one: &Container| match one.restart_policy.as_str() {
        "Always" => container(pod, one, sandbox, up(sandbox.started)),
        _ => container(
            pod,
            one,
            sandbox,
            terminated(pod, one, sandbox, (0, sandbox.started)),
        ),
    };
    Some(all.iter().map(status).collect())
}

fn container(pod: &Pod, container: &Container, sandbox: &Sandbox, state: ContainerState) -> ContainerStatus {
    let image = container.image.clone();
    let started = state.running.is_some();
    ContainerStatus {
        name: container.name.clone(),
        image_id: format!("{}://{image}", sandbox.scheme),
        image,
        container_id: Some(container_id(pod, container, sandbox)),
        ready: true,
        started: Some(started),
        restart_count: 0,
        state: Some(state),
        ..ContainerStatus::default()
    }
}

fn container_id(pod: &Pod, container: &Container, sandbox: &Sandbox) -> String {
    format!("{}://{}/{}", sandbox.scheme, pod.metadata.uid, container.name)
}

fn up(since: Timestamp) -> ContainerState {
    ContainerState {
        running: Some(ContainerStateRunning {
            started_at: Some(time(since)),
        }),
        ..ContainerState::default()
    }
}

/// The state of a container that terminated with this exit code at this time.
fn terminated(
    pod: &Pod,
    container: &Container,
    sandbox: &Sandbox,
    (exit_code, at): (i32, Timestamp),
) -> ContainerState {
    let reason = if exit_code == 0 { "Completed" } else { "Error" };
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            container_id: Some(container_id(pod, container, sandbox)),
            exit_code,
            reason: Some(reason.to_owned()),
            started_at: Some(time(sandbox.started)),
            finished_at: Some(time(at)),
            ..ContainerStateTerminated::default()
        }),
        ..ContainerState::default()
    }
}

/// The agent's own conditions first, in the kubelet's order, then those of other writers.
fn conditions(now: Timestamp, pod: &Pod, old: &PodStatus) -> Vec<PodCondition> {
    let old = old.conditions.as_deref().unwrap_or_default();
    let open = open_gates(pod, old);
    let own = [
        ("PodReadyToStartContainers", true),
        ("Initialized", true),
        ("Ready", open.is_empty()),
        ("ContainersReady", true),
        ("PodScheduled", true),
    ];
    let mut conditions: Vec<_> = own
        .iter()
        .map(|(type_, holds)| condition(now, pod, old, type_, *holds))
        .collect();
    if !open.is_empty() {
        conditions[2].reason = Some("ReadinessGatesNotReady".to_owned());
        conditions[2].message = Some(gate_message(&open));
    }
    let foreign = |one: &&PodCondition| own.iter().all(|(type_, _)| one.type_ != *type_);
    conditions.extend(old.iter().filter(foreign).cloned());
    conditions
}

/// The conditions of a terminated pod: it is initialized and scheduled, and nothing of it is ready.
fn terminated_conditions(now: Timestamp, pod: &Pod, old: &PodStatus, reason: &str) -> Vec<PodCondition> {
    let mut conditions = conditions(now, pod, old);
    let old = old.conditions.as_deref().unwrap_or_default();
    for own in &mut conditions {
        let type_ = own.type_.clone();
        match type_.as_str() {
            "PodReadyToStartContainers" => *own = condition(now, pod, old, &type_, false),
            "Ready" | "ContainersReady" => {
                *own = condition(now, pod, old, &type_, false);
                own.reason = Some(reason.to_owned());
            }
            "Initialized" if reason == "PodCompleted" => own.reason = Some(reason.to_owned()),
            _ => {}
        }
    }
    conditions
}

fn condition(now: Timestamp, pod: &Pod, old: &[PodCondition], type_: &str, holds: bool) -> PodCondition {
    let status = if holds { "True" } else { "False" };
    let same = |one: &&PodCondition| one.type_ == type_ && one.status == status;
    let since = old
        .iter()
        .find(same)
        .and_then(|one| one.last_transition_time.clone());
    PodCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_transition_time: since.or(Some(time(now))),
        observed_generation: pod.metadata.generation,
        ..PodCondition::default()
    }
}

/// The readiness gates whose condition is not met.
fn open_gates<'a>(pod: &'a Pod, conditions: &[PodCondition]) -> BTreeSet<&'a str> {
    let is_met = |gate: &str| {
        let mut named = conditions.iter().filter(|one| one.type_ == gate);
        named.any(|one| one.status == "True")
    };
    let names = pod
        .spec
        .readiness_gates
        .iter()
        .map(|gate| gate.condition_type.as_str());
    names.filter(|gate| !is_met(gate)).collect()
}

fn gate_message(open: &BTreeSet<&str>) -> String {
    let each = |gate: &&str| format!("the status of pod readiness gate {gate:?} is not \"True\", but False");
    open.iter().map(each).collect::<Vec<_>>().join("; ")
}

/// Times in objects have no fractions.
pub(crate) fn time(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use serde_json::{Value, json};

    use super::*;

    /// The status, at second 60, of a pod that was started at second 30.
    fn status(pod: Value) -> Value {
        let since = Timestamp::from_second(30).unwrap();
        let containers = ContainersState::Running {
            since,
            restarts: 0,
            recheck_after: None,
        };
        status_of(pod, containers)
    }

    fn status_of(pod: Value, containers: ContainersState) -> Value {
        let sandbox = Sandbox {
            address: Ipv4Addr::new(10, 64, 0, 1),
            started: Timestamp::from_second(30).unwrap(),
            scheme: "simulated",
            containers,
        };
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let now = Timestamp::from_second(60).unwrap();
        serde_json::to_value(pod_status(now, &Machine::new("n", 0), &pod, &sandbox)).unwrap()
    }

    fn pod() -> Value {
        json!({
            "metadata": {"name": "p", "uid": "u", "generation": 2},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        })
    }

    /// FL6
    #[test]
    fn a_running_pod_reports_its_addresses_and_start_time() {
        let status = status(pod());
        assert_eq!(status["phase"], "Running");
        assert_eq!(status["podIP"], "10.64.0.1");
        assert_eq!(status["hostIP"], "10.0.0.1");
        assert_eq!(status["startTime"], "1970-01-01T00:00:30Z");
        assert_eq!(status["observedGeneration"], 2);
        let container = &status["containerStatuses"][0];
        assert_eq!(
            (&container["ready"], &container["started"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(container["containerID"], "simulated://u/c");
        assert_eq!(container["state"]["running"]["startedAt"], "1970-01-01T00:00:30Z");
    }

    /// FL6
    #[test]
    fn a_running_pod_meets_every_condition() {
        let status = status(pod());
        let shown: Vec<String> = status["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                format!(
                    "{}={}",
                    one["type"].as_str().unwrap(),
                    one["status"].as_str().unwrap()
                )
            })
            .collect();
        assert_eq!(
            shown.join(" "),
            "PodReadyToStartContainers=True Initialized=True Ready=True ContainersReady=True PodScheduled=True"
        );
    }

    /// FL8
    #[test]
    fn fl8_a_terminated_pod_reports_its_exit_code_and_time() {
        let at = Timestamp::from_second(50).unwrap();
        let status = status_of(pod(), ContainersState::Terminated { exit_code: 3, at });
        assert_eq!(status["phase"], "Failed");
        let container = &status["containerStatuses"][0];
        assert_eq!(
            (&container["ready"], &container["started"]),
            (&json!(false), &json!(false))
        );
        let terminated = &container["state"]["terminated"];
        assert_eq!(
            (&terminated["exitCode"], &terminated["reason"]),
            (&json!(3), &json!("Error"))
        );
        assert_eq!(terminated["startedAt"], "1970-01-01T00:00:30Z");
        assert_eq!(terminated["finishedAt"], "1970-01-01T00:00:50Z");
        let ready = &status["conditions"][2];
        assert_eq!(
            (&ready["status"], &ready["reason"]),
            (&json!("False"), &json!("PodFailed"))
        );
        let status = status_of(pod(), ContainersState::Terminated { exit_code: 0, at });
        assert_eq!(status["phase"], "Succeeded");
        assert_eq!(status["conditions"][2]["reason"], "PodCompleted");
    }

    #[test]
    fn a_condition_that_stays_keeps_its_time_and_those_of_others_are_kept() {
        let mut pod = pod();
        pod["status"] = json!({"conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:09Z"},
            {"type": "example.com/mine", "status": "False"},
        ]});
        let conditions = &status(pod)["conditions"];
        assert_eq!(conditions[4]["lastTransitionTime"], "1970-01-01T00:00:09Z");
        assert_eq!(conditions[0]["lastTransitionTime"], "1970-01-01T00:01:00Z");
        assert_eq!(conditions[5]["type"], "example.com/mine");
    }

    #[test]
    fn an_open_readiness_gate_keeps_a_pod_from_being_ready() {
        let mut pod = pod();
        pod["spec"]["readinessGates"] = json!([{"conditionType": "example.com/mine"}]);
        let ready = &status(pod)["conditions"][2];
        assert_eq!(
            (&ready["type"], &ready["status"]),
            (&json!("Ready"), &json!("False"))
        );
        assert_eq!(ready["reason"], "ReadinessGatesNotReady");
    }

    #[test]
    fn an_init_container_has_completed_and_a_sidecar_runs() {
        let mut pod = pod();
        pod["spec"]["initContainers"] = json!([
            {"name": "once", "image": "i"},
            {"name": "beside", "image": "i", "restartPolicy": "Always"},
        ]);
        let status = status(pod);
        let states = &status["initContainerStatuses"];
        assert_eq!(states[0]["state"]["terminated"]["reason"], "Completed");
        assert!(states[1]["state"]["running"].is_object());
    }

    #[test]
    fn reporting_twice_gives_the_same_status() {
        let mut pod = pod();
        pod["status"] = status(pod.clone());
        assert_eq!(status(pod.clone()), pod["status"]);
    }
}
