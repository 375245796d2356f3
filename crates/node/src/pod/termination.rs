//! The end of a pod: its containers are stopped within their grace period, then its sandbox.

use std::time::Duration;

use futures_util::future::join_all;
use setpoint_container_runtime::{ContainerId, ContainerRecord, SandboxState};
use setpoint_runtime::EventType;

use super::bound_pod::{BoundPod, ContainerKind, is_sidecar};
use super::observed::ObservedPod;
use super::record::{REMOVAL, SharedRecord};
use super::work::PodExecutor;

/// Containers get at least this long, so that SIGKILL is not needed for those that stop at once.
const MIN_GRACE: Duration = Duration::from_secs(2);

impl PodExecutor {
    /// Stops everything of a pod: first its containers, then its sidecars in reverse order, then its sandboxes.
    pub(super) async fn stop_pod(&self, pod: &BoundPod, observed: &ObservedPod, grace: Duration) {
        let began = self.clock.now();
        let (sidecars, others): (Vec<_>, Vec<_>) = observed
            .running()
            .partition(|container| is_sidecar_of(pod, container));
        let stop = |container: &ContainerRecord, grace| {
            let (id, name) = (container.id.clone(), container.name.clone());
            async move { self.kill_container(pod, (&id, &name), "", grace).await }
        };
        join_all(others.into_iter().map(|container| stop(container, grace))).await;
        let mut sidecars = sidecars;
        sidecars.sort_by_key(|container| std::cmp::Reverse(sidecar_index(pod, container)));
        for container in sidecars {
            let passed = Duration::try_from(self.clock.now().duration_since(began)).unwrap_or_default();
            stop(container, grace.saturating_sub(passed)).await;
        }
        self.stop_sandboxes(pod, observed).await;
    }

    async fn stop_sandboxes(&self, pod: &BoundPod, observed: &ObservedPod) {
        for sandbox in &observed.sandboxes {
            if sandbox.state != SandboxState::Ready {
                continue;
            }
            if let Err(error) = self.runtime.stop_sandbox(&sandbox.id).await {
                let message = format!("error killing pod: {error}");
                self.events.pod(pod, EventType::Warning, "FailedKillPod", message);
            }
        }
    }

    /// Stops one container. An empty message is the kubelet's usual one.
    pub(super) async fn kill_container(
        &self,
        pod: &BoundPod,
        (id, name): (&ContainerId, &str),
        message: &str,
        grace: Duration,
    ) {
        let usual = format!("Stopping container {name}");
        let message = if message.is_empty() {
            usual.as_str()
        } else {
            message
        };
        self.events.normal(pod, name, "Killing", message);
        let container = pod.find_container(name).map(|(_, container)| container);
        let grace = match container {
            Some(container) => self.run_pre_stop(pod, container, id, grace).await,
            None => grace,
        };
        if let Err(error) = self.runtime.stop_container(id, grace.max(MIN_GRACE)).await {
            tracing::debug!(pod = %pod.key, container = name, %error, "cannot stop a container");
        }
    }

    /// Stops and removes everything in the record, without a pod.
    pub(crate) async fn remove_all(&self, record: &SharedRecord) {
        let (sandboxes, containers) = {
            let record = record.lock();
            (record.sandboxes.clone(), record.containers.clone())
        };
        for id in &containers {
            if let Err(error) = self.runtime.stop_container(id, MIN_GRACE).await {
                tracing::debug!(container = %id.0, %error, "cannot stop a container");
            }
            self.remove_container(record, id).await;
        }
        for id in &sandboxes {
            let stopped = self.runtime.stop_sandbox(id).await;
            match stopped.and(self.runtime.remove_sandbox(id).await) {
                Ok(()) => record.lock().sandboxes.retain(|own| own != id),
                Err(error) => {
                    tracing::debug!(sandbox = %id.0, %error, "cannot remove a sandbox");
                    self.retry_later(record, REMOVAL);
                }
            }
        }
        let uid = {
            let record = record.lock();
            if !record.sandboxes.is_empty() {
                // Its containers may still run, and use the volumes.
                return;
            }
            record.uid.clone()
        };
        self.setup.unmount(&uid).await;
        self.setup.remove_cgroup(&uid, &*self.clock).await;
    }
}

fn is_sidecar_of(pod: &BoundPod, container: &ContainerRecord) -> bool {
    sidecar_index(pod, container).is_some()
}

fn sidecar_index(pod: &BoundPod, container: &ContainerRecord) -> Option<usize> {
    let mut init = pod.containers(ContainerKind::Init).iter();
    init.position(|one| one.name == container.name && is_sidecar(one))
}
