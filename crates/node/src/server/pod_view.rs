//! [`PodView`]: the fields of a Pod that the server reads.

use serde::Deserialize;
use setpoint_container_runtime::ContainerId;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodView {
    pub(super) metadata: Metadata,
    pub(super) spec: Spec,
    pub(super) status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec {
    containers: Vec<Container>,
    init_containers: Option<Vec<Container>>,
    ephemeral_containers: Option<Vec<Container>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Container {
    name: String,
    pub(super) tty: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Status {
    container_statuses: Option<Vec<ContainerStatus>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
    ephemeral_container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ContainerStatus {
    name: String,
    #[serde(rename = "containerID")]
    container_id: Option<String>,
    state: State,
    last_state: State,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct State {
    waiting: Option<WaitingState>,
    running: Option<RunningState>,
    terminated: Option<TerminatedState>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct WaitingState {
    reason: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct RunningState {}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct TerminatedState {
    #[serde(rename = "containerID")]
    container_id: Option<String>,
}

impl PodView {
    /// The container of this name in the spec.
    pub(super) fn find_container(&self, name: &str) -> Option<&Container> {
        let spec = &self.spec;
        let others = [&spec.init_containers, &spec.ephemeral_containers];
        let others = others.into_iter().flatten().flatten();
        spec.containers
            .iter()
            .chain(others)
            .find(|container| container.name == name)
    }

    /// The runtime's id of the container, as the status has it.
    pub(super) fn container_id(&self, name: &str) -> Option<ContainerId> {
        parse_id(self.find_status(name)?.container_id.as_ref())
    }

    /// The ids of all containers that the status has.
    pub(super) fn container_ids(&self) -> impl Iterator<Item = ContainerId> {
        self.statuses()
            .filter_map(|status| parse_id(status.container_id.as_ref()))
    }

    /// The container whose log a client gets. An error is the kubelet's text.
    pub(super) fn log_container(&self, name: &str, previous: bool) -> Result<ContainerId, String> {
        let pod = &self.metadata.name;
        let Some(status) = self.find_status(name) else {
            return Err(format!("container {name:?} in pod {pod:?} is not available"));
        };
        let last = status.last_state.terminated.as_ref();
        let last_id = last.and_then(|last| parse_id(last.container_id.as_ref()));
        if previous {
            return last_id
                .ok_or_else(|| format!("previous terminated container {name:?} in pod {pod:?} not found"));
        }
        let terminated = || format!("container {name:?} in pod {pod:?} is terminated");
        let state = &status.state;
        if state.running.is_some() {
            return parse_id(status.container_id.as_ref())
                .ok_or_else(|| format!("container {name:?} in pod {pod:?} is not available"));
        }
        if let Some(ended) = &state.terminated {
            return parse_id(ended.container_id.as_ref())
                .or(last_id)
                .ok_or_else(terminated);
        }
        if last.is_some() {
            return last_id.ok_or_else(terminated);
        }
        let reason = match state.waiting.as_ref().map(|waiting| waiting.reason.as_str()) {
            Some("ErrImagePull") => "image can't be pulled",
            Some("ImagePullBackOff") => "trying and failing to pull image",
            Some(reason) => reason,
            None => "no logs available yet",
        };
        Err(format!(
            "container {name:?} in pod {pod:?} is waiting to start: {reason}"
        ))
    }

    fn find_status(&self, name: &str) -> Option<&ContainerStatus> {
        self.statuses().find(|status| status.name == name)
    }

    fn statuses(&self) -> impl Iterator<Item = &ContainerStatus> {
        let status = &self.status;
        let lists = [
            &status.container_statuses,
            &status.init_container_statuses,
            &status.ephemeral_container_statuses,
        ];
        lists.into_iter().flatten().flatten()
    }
}

/// The id of `<runtime>://<id>`.
fn parse_id(text: Option<&String>) -> Option<ContainerId> {
    let (_, id) = text?.split_once("://")?;
    (!id.is_empty()).then(|| ContainerId(id.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(status: Value, previous: bool, expected: Result<&str, &str>) {
        let pod = json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [status]}});
        let pod: PodView = serde_json::from_value(pod).unwrap();
        let found = pod.log_container("c", previous);
        let found = found.as_ref().map(|id| id.0.as_str()).map_err(String::as_str);
        assert_eq!(found, expected);
    }

    #[test]
    fn the_log_is_that_of_the_running_or_last_container() {
        let running = json!({"name": "c", "containerID": "r://2", "state": {"running": {}},
            "lastState": {"terminated": {"containerID": "r://1"}}});
        check(running.clone(), false, Ok("2"));
        check(running, true, Ok("1"));
        let waiting = json!({"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"containerID": "r://1"}}});
        check(waiting, false, Ok("1"));
        let ended = json!({"name": "c", "state": {"terminated": {"containerID": "r://3"}}});
        check(ended.clone(), false, Ok("3"));
        check(
            ended,
            true,
            Err("previous terminated container \"c\" in pod \"p\" not found"),
        );
    }

    #[test]
    fn a_container_without_a_log_has_the_kubelets_text() {
        let waiting = |reason: &str| json!({"name": "c", "state": {"waiting": {"reason": reason}}});
        let prefix = "container \"c\" in pod \"p\" is waiting to start:";
        check(
            waiting("ContainerCreating"),
            false,
            Err(&format!("{prefix} ContainerCreating")),
        );
        check(
            waiting("ErrImagePull"),
            false,
            Err(&format!("{prefix} image can't be pulled")),
        );
        let back_off = format!("{prefix} trying and failing to pull image");
        check(waiting("ImagePullBackOff"), false, Err(&back_off));
        let other = json!({"name": "x"});
        check(other, false, Err("container \"c\" in pod \"p\" is not available"));
        let empty = json!({"name": "c", "state": {"terminated": {}}});
        check(empty, false, Err("container \"c\" in pod \"p\" is terminated"));
    }
}
