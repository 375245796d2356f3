//! Containers and sandboxes of a pod in the runtime.

use setpoint_container_runtime::{
    ContainerId, ContainerRecord, ContainerState, Error, Runtime, SandboxId, SandboxState,
};

use super::pod_view::PodView;

/// The running container of this name. The pod's status usually has its id; right after a restart only the runtime does.
pub(super) async fn find_running(
    runtime: &dyn Runtime,
    pod: &PodView,
    name: &str,
) -> Result<Option<ContainerRecord>, Error> {
    if let Some(id) = pod.container_id(name)
        && let Some(record) = find(runtime, pod, &id).await?
        && is_running(&record)
    {
        return Ok(Some(record));
    }
    let Some(sandbox) = find_sandbox(runtime, pod).await? else {
        return Ok(None);
    };
    let containers = runtime.list_containers().await?;
    let is_found = |one: &ContainerRecord| one.sandbox == sandbox && one.name == name && is_running(one);
    Ok(containers.into_iter().find(is_found))
}

/// The container of this id, with all details, if it is one of the pod. Ids come from the pod's status, into which a user
/// who may write it can put that of any container on the node.
pub(super) async fn find(
    runtime: &dyn Runtime,
    pod: &PodView,
    id: &ContainerId,
) -> Result<Option<ContainerRecord>, Error> {
    let Some(record) = runtime.container(id).await? else {
        return Ok(None);
    };
    let sandbox = runtime.sandbox(&record.sandbox).await?;
    // A static pod has another uid in the API than in the runtime.
    let is_own = sandbox.is_some_and(|sandbox| {
        sandbox.pod.namespace == pod.metadata.namespace && sandbox.pod.name == pod.metadata.name
    });
    Ok(is_own.then_some(record))
}

/// The pod's sandbox, if it is ready.
pub(super) async fn find_sandbox(runtime: &dyn Runtime, pod: &PodView) -> Result<Option<SandboxId>, Error> {
    for id in pod.container_ids() {
        if let Some(record) = find(runtime, pod, &id).await?
            && let Some(sandbox) = runtime.sandbox(&record.sandbox).await?
            && sandbox.state == SandboxState::Ready
        {
            return Ok(Some(sandbox.id));
        }
    }
    let sandboxes = runtime.list_sandboxes().await?;
    let mut sandboxes = sandboxes.into_iter();
    let found = sandboxes.find(|one| one.pod.uid == pod.metadata.uid && one.state == SandboxState::Ready);
    Ok(found.map(|sandbox| sandbox.id))
}

pub(super) fn is_running(record: &ContainerRecord) -> bool {
    matches!(record.state, ContainerState::Running { .. })
}
