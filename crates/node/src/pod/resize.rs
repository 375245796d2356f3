//! Resize of running pods: the resources of running containers follow the spec of their pod.
//!
//! The agent remembers the resources that each container runs with; after a restart it reads them from the status that it
//! reported. A resize that the node cannot grant stays pending and is tried again.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use setpoint_api::Quantity;
use setpoint_container_runtime::{ContainerId, ContainerRecord, ContainerState};
use setpoint_runtime::Error;

use super::bound_pod::{BoundPod, ContainerKind, is_sidecar};
use super::observed::ObservedPod;
use super::record::SharedRecord;
use super::step::PodStep;
use super::work::PodExecutor;

/// The resources that can be changed in a running container.
const RESOURCES: [&str; 2] = ["cpu", "memory"];
/// When a resize that was not carried out is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// The resources of containers by the runtime's id.
pub(crate) type ActuatedResources = BTreeMap<ContainerId, v1::ResourceRequirements>;

/// A resize that has not been carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResizeState {
    /// The node does not have the resources now.
    Deferred { message: String },
    /// The node has granted it, and the runtime has failed to carry it out so far.
    InProgress { error: String },
}

/// A container that runs with other resources than its spec has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ContainerResize {
    id: ContainerId,
    name: String,
    /// Whether it is restarted for it.
    restarts: bool,
}

impl PodStep<'_> {
    /// Resizes the running containers of the pod. Returns what the runtime has then, and when the resize is tried again.
    pub(super) async fn resize(
        &self,
        observed: ObservedPod,
    ) -> Result<(ObservedPod, Option<Timestamp>), Error> {
        let resizes = resizes(&self.pod, &observed, &self.record.lock().actuated);
        if resizes.is_empty() {
            self.record.lock().resize = None;
            return Ok((observed, None));
        }
        let executor = &self.reconciler.executor;
        let state = match self.reconciler.admission.resize(&self.pod, self.machine) {
            Err(pending) => Some(pending),
            Ok(()) => {
                let resized = executor.resize(&self.pod, &self.record, &resizes).await;
                resized.err().map(|error| ResizeState::InProgress { error })
            }
        };
        let retry = state
            .as_ref()
            .and_then(|_| executor.clock.now().checked_add(RETRY_AFTER).ok());
        self.record.lock().resize = state;
        Ok((self.observe().await?, retry))
    }
}

impl PodExecutor {
    /// Changes the resources of containers and of their pod. Containers that are restarted get theirs when they start.
    async fn resize(
        &self,
        pod: &BoundPod,
        record: &SharedRecord,
        resizes: &[ContainerResize],
    ) -> Result<(), String> {
        // A pod that grows must do so before its containers, one that shrinks after them.
        let _ = self.setup.update_cgroup(pod);
        for resize in resizes {
            let Some((_, container)) = pod.find_container(&resize.name) else {
                continue;
            };
            if resize.restarts {
                let message = format!("Container {} resize requires restart", resize.name);
                self.kill_container(pod, (&resize.id, &resize.name), &message, pod.grace())
                    .await;
                continue;
            }
            let resources = self.setup.container_resources(pod, container);
            let updated = self.runtime.update_container(&resize.id, resources).await;
            updated.map_err(|error| error.to_string())?;
            let own = container.resources.clone().unwrap_or_default();
            record.lock().actuated.insert(resize.id.clone(), own);
        }
        self.setup.update_cgroup(pod)
    }
}

/// The containers that run with other resources than their spec has.
fn resizes(pod: &BoundPod, observed: &ObservedPod, actuated: &ActuatedResources) -> Vec<ContainerResize> {
    let regular = pod.containers(ContainerKind::Regular).iter();
    let sidecars = pod
        .containers(ContainerKind::Init)
        .iter()
        .filter(|one| is_sidecar(one));
    let resize = |container: &v1::Container| {
        let running = observed.active(&container.name)?;
        if !matches!(running.state, ContainerState::Running { .. }) {
            return None;
        }
        let in_force = in_force(pod, running, actuated)?;
        let changed = changed(&in_force, container.resources.as_ref());
        (!changed.is_empty()).then(|| ContainerResize {
            id: running.id.clone(),
            name: container.name.clone(),
            restarts: changed.iter().any(|name| restarts(container, name)),
        })
    };
    regular.chain(sidecars).filter_map(resize).collect()
}

/// The resources that a container runs with: as the agent remembers, or as the status reports; unknown for a container that
/// has not been reported, which runs with those of its spec.
pub(super) fn in_force(
    pod: &BoundPod,
    container: &ContainerRecord,
    actuated: &ActuatedResources,
) -> Option<v1::ResourceRequirements> {
    if let Some(own) = actuated.get(&container.id) {
        return Some(own.clone());
    }
    let status = pod.status();
    let statuses = [&status.container_statuses, &status.init_container_statuses];
    let mut statuses = statuses.into_iter().flatten().flatten();
    let is_own = |status: &&v1::ContainerStatus| {
        let id = status.container_id.as_deref().unwrap_or_default();
        id.rsplit_once("://").is_some_and(|(_, id)| id == container.id.0)
    };
    statuses.find(is_own)?.resources.clone()
}

/// The names of resources whose request or limit differs.
fn changed(
    in_force: &v1::ResourceRequirements,
    spec: Option<&v1::ResourceRequirements>,
) -> Vec<&'static str> {
    let empty = v1::ResourceRequirements::default();
    let spec = spec.unwrap_or(&empty);
    let amounts = |resources: &v1::ResourceRequirements, name: &str| {
        let lists = [resources.requests.as_ref(), resources.limits.as_ref()];
        lists.map(|list| list.and_then(|list| list.get(name)?.0.parse::<Quantity>().ok()))
    };
    let differs = |name: &&'static str| amounts(in_force, name) != amounts(spec, name);
    RESOURCES.into_iter().filter(differs).collect()
}

fn restarts(container: &v1::Container, resource: &str) -> bool {
    let mut policies = container.resize_policy.iter().flatten();
    policies.any(|policy| policy.resource_name == resource && policy.restart_policy == "RestartContainer")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use setpoint_container_runtime::{PodIdentity, SandboxId, SandboxRecord, SandboxState};

    use super::*;

    fn observed() -> ObservedPod {
        let sandbox = SandboxRecord {
            id: SandboxId("s".to_owned()),
            pod: PodIdentity {
                node: String::new(),
                namespace: String::new(),
                name: "p".to_owned(),
                uid: "u".to_owned(),
            },
            attempt: 0,
            state: SandboxState::Ready,
            created_at: Timestamp::UNIX_EPOCH,
            addresses: Vec::new(),
        };
        let container = ContainerRecord {
            id: ContainerId("1".to_owned()),
            sandbox: sandbox.id.clone(),
            name: "c".to_owned(),
            attempt: 0,
            image: String::new(),
            image_id: String::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            created_at: Timestamp::UNIX_EPOCH,
            state: ContainerState::Running {
                started_at: Timestamp::UNIX_EPOCH,
            },
            log_path: String::new(),
            resources: None,
            user: None,
        };
        ObservedPod {
            sandboxes: vec![sandbox],
            containers: vec![container],
        }
    }

    /// A container with these resources in its spec and in its status, and what is resized: `c`, or `c restarts`.
    #[track_caller]
    fn check(spec: Value, status: Value, policy: Value, expected: &str) {
        let pod = json!({
            "metadata": { "uid": "u" },
            "spec": { "containers": [{ "name": "c", "resources": spec, "resizePolicy": policy }] },
            "status": { "containerStatuses": [{
                "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "containerID": "containerd://1", "resources": status,
            }] },
        });
        let pod = BoundPod::new(serde_json::from_value(pod).unwrap());
        let resizes = resizes(&pod, &observed(), &ActuatedResources::new());
        let shown = resizes.iter().map(|one| match one.restarts {
            true => format!("{} restarts", one.name),
            false => one.name.clone(),
        });
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expected);
    }

    fn cpu(amount: &str) -> Value {
        json!({ "requests": { "cpu": amount } })
    }

    #[test]
    fn a_container_is_resized_when_its_spec_differs_from_what_it_runs_with() {
        check(cpu("1"), cpu("1000m"), json!([]), "");
        check(cpu("2"), cpu("1"), json!([]), "c");
        check(cpu("2"), Value::Null, json!([]), "");
    }

    #[test]
    fn the_policy_of_the_changed_resource_decides_about_a_restart() {
        let policy = json!([
            { "resourceName": "cpu", "restartPolicy": "NotRequired" },
            { "resourceName": "memory", "restartPolicy": "RestartContainer" },
        ]);
        check(cpu("2"), cpu("1"), policy.clone(), "c");
        let memory = |amount: &str| json!({ "limits": { "memory": amount } });
        check(memory("2Gi"), memory("1Gi"), policy, "c restarts");
    }
}
