//! Containers over CRI.

mod encode;

use std::time::Duration;

use jiff::Timestamp;
use setpoint_container_runtime::container::Resources;
use setpoint_container_runtime::{
    ContainerConfig, ContainerId, ContainerRecord, ContainerService, ContainerState, Error, ErrorKind,
    ExitStatus, RuntimeFuture, SandboxConfig, SandboxId,
};

use crate::cri::{CALL_TIMEOUT, Cri, time};
use crate::error::from_status;
use crate::proto::{Empty, container as proto, values};
use crate::sandbox::{self, ignore_absent};

/// The label with the uid of the pod, by which the kubelet and other tools recognize containers.
const POD_UID_LABEL: &str = "io.kubernetes.pod.uid";

impl ContainerService for Cri {
    fn create_container<'a>(
        &'a self,
        sandbox: &'a SandboxId,
        config: ContainerConfig,
        sandbox_config: &'a SandboxConfig,
    ) -> RuntimeFuture<'a, ContainerId> {
        Box::pin(async move {
            let request = proto::CreateContainerRequest {
                pod_sandbox_id: sandbox.0.clone(),
                config: Some(encode::container_config(config)),
                sandbox_config: Some(sandbox::encode(sandbox_config)),
            };
            let response: proto::CreateContainerResponse = self
                .runtime("CreateContainer", &request, ErrorKind::CreateContainer)
                .await?;
            let id = response.container_id;
            self.pods.insert(&id, &sandbox_config.pod.uid, &sandbox.0);
            Ok(ContainerId(id))
        })
    }

    fn start_container(&self, id: &ContainerId) -> RuntimeFuture<'_, ()> {
        let request = request(id);
        Box::pin(async move {
            let Empty {} = self
                .runtime("StartContainer", &request, ErrorKind::StartContainer)
                .await?;
            Ok(())
        })
    }

    fn stop_container(&self, id: &ContainerId, grace: Duration) -> RuntimeFuture<'_, ()> {
        let request = proto::StopContainerRequest {
            container_id: id.0.clone(),
            timeout: i64::try_from(grace.as_secs()).unwrap_or(i64::MAX),
        };
        Box::pin(async move {
            let called = self
                .runtime_within("StopContainer", &request, CALL_TIMEOUT.saturating_add(grace))
                .await;
            ignore_absent(called.map_err(|status| from_status(&status, ErrorKind::Other)))
        })
    }

    fn remove_container(&self, id: &ContainerId) -> RuntimeFuture<'_, ()> {
        let request = request(id);
        Box::pin(async move {
            let removed: Result<Empty, _> = self.runtime("RemoveContainer", &request, ErrorKind::Other).await;
            self.pods.remove(&request.container_id);
            ignore_absent(removed)
        })
    }

    fn container(&self, id: &ContainerId) -> RuntimeFuture<'_, Option<ContainerRecord>> {
        let request = proto::ContainerStatusRequest {
            container_id: id.0.clone(),
            verbose: false,
        };
        Box::pin(self.find_container(request))
    }

    fn list_containers(&self) -> RuntimeFuture<'_, Vec<ContainerRecord>> {
        Box::pin(async move {
            let response: proto::ListContainersResponse = self
                .runtime("ListContainers", &Empty {}, ErrorKind::Other)
                .await?;
            for container in &response.containers {
                if let Some(uid) = container.labels.get(POD_UID_LABEL) {
                    self.pods.insert(&container.id, uid, &container.pod_sandbox_id);
                }
            }
            Ok(response.containers.into_iter().map(record_of_item).collect())
        })
    }

    fn update_container(&self, id: &ContainerId, resources: Resources) -> RuntimeFuture<'_, ()> {
        let request = proto::UpdateContainerResourcesRequest {
            container_id: id.0.clone(),
            linux: Some(encode::resources(resources)),
        };
        Box::pin(async move {
            let method = "UpdateContainerResources";
            let Empty {} = self.runtime(method, &request, ErrorKind::Other).await?;
            Ok(())
        })
    }

    fn reopen_log(&self, id: &ContainerId) -> RuntimeFuture<'_, ()> {
        let request = request(id);
        Box::pin(async move {
            let Empty {} = self
                .runtime("ReopenContainerLog", &request, ErrorKind::Other)
                .await?;
            Ok(())
        })
    }
}

impl Cri {
    async fn find_container(
        &self,
        request: proto::ContainerStatusRequest,
    ) -> Result<Option<ContainerRecord>, Error> {
        let found = self.runtime("ContainerStatus", &request, ErrorKind::Other).await;
        let response: proto::ContainerStatusResponse = match found {
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        let Some(status) = response.status else {
            return Ok(None);
        };
        let sandbox = self.sandbox_of(&status.id).await?;
        Ok(Some(record_of_status(status, sandbox)))
    }

    /// The sandbox of a container, which its status does not name. One that this client did not see yet is in the list.
    async fn sandbox_of(&self, id: &str) -> Result<SandboxId, Error> {
        if self.pods.find(id).is_none() {
            self.list_containers().await?;
        }
        let sandbox = self.pods.find(id).map(|entry| entry.sandbox);
        Ok(SandboxId(sandbox.unwrap_or_default()))
    }
}

fn request(id: &ContainerId) -> proto::ContainerRequest {
    proto::ContainerRequest {
        container_id: id.0.clone(),
    }
}

fn record_of_status(status: proto::ContainerStatus, sandbox: SandboxId) -> ContainerRecord {
    let metadata = status.metadata.clone().unwrap_or_default();
    let image = status.image.clone().unwrap_or_default().image;
    ContainerRecord {
        state: state_of_status(&status),
        id: ContainerId(status.id),
        sandbox,
        name: metadata.name,
        attempt: metadata.attempt,
        image,
        image_id: status.image_ref,
        labels: status.labels,
        annotations: status.annotations,
        created_at: time(status.created_at),
        log_path: status.log_path,
        resources: status
            .resources
            .and_then(|one| one.linux)
            .map(encode::decode_resources),
        user: status
            .user
            .and_then(|one| one.linux)
            .map(|user| (user.uid, user.gid, user.supplemental_groups)),
    }
}

fn record_of_item(item: proto::Container) -> ContainerRecord {
    let metadata = item.metadata.unwrap_or_default();
    let created_at = time(item.created_at);
    ContainerRecord {
        id: ContainerId(item.id),
        sandbox: SandboxId(item.pod_sandbox_id),
        name: metadata.name,
        attempt: metadata.attempt,
        image: item.image.unwrap_or_default().image,
        image_id: item.image_ref,
        labels: item.labels,
        annotations: item.annotations,
        created_at,
        state: state_of_item(item.state, created_at),
        log_path: String::new(),
        resources: None,
        user: None,
    }
}

/// The state in a list, which has no times and no exit code.
fn state_of_item(number: i32, created_at: Timestamp) -> ContainerState {
    match number {
        values::CONTAINER_CREATED => ContainerState::Created,
        values::CONTAINER_RUNNING => ContainerState::Running {
            started_at: created_at,
        },
        values::CONTAINER_EXITED => ContainerState::Exited(ExitStatus {
            started_at: created_at,
            finished_at: created_at,
            exit_code: 0,
            reason: String::new(),
            message: String::new(),
        }),
        _ => ContainerState::Unknown,
    }
}

fn state_of_status(status: &proto::ContainerStatus) -> ContainerState {
    match status.state {
        values::CONTAINER_CREATED => ContainerState::Created,
        values::CONTAINER_RUNNING => ContainerState::Running {
            started_at: time(status.started_at),
        },
        values::CONTAINER_EXITED => {
            let started_at = time(status.started_at);
            ContainerState::Exited(ExitStatus {
                started_at,
                // Of a very short process the runtime may have seen the end before it recorded the start.
                finished_at: time(status.finished_at).max(started_at),
                exit_code: status.exit_code,
                reason: status.reason.clone(),
                message: status.message.clone(),
            })
        }
        _ => ContainerState::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_does_not_end_before_it_starts() {
        let status = proto::ContainerStatus {
            state: values::CONTAINER_EXITED,
            started_at: 2_000,
            finished_at: 1_000,
            exit_code: 3,
            ..Default::default()
        };
        let ContainerState::Exited(exit) = state_of_status(&status) else {
            panic!("the container has exited");
        };
        assert_eq!((exit.finished_at, exit.exit_code), (time(2_000), 3));
    }
}
