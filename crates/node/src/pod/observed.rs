//! [`ObservedPod`]: the sandboxes and containers of one pod as the runtime reports them.

use std::cmp::Reverse;
use std::net::IpAddr;

use setpoint_container_runtime::{
    ContainerId, ContainerRecord, ContainerState, Error, ExitStatus, Runtime, SandboxId, SandboxRecord,
    SandboxState,
};

/// The sandboxes and containers of one pod, newest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObservedPod {
    pub(crate) sandboxes: Vec<SandboxRecord>,
    pub(crate) containers: Vec<ContainerRecord>,
}

/// Why a pod needs another sandbox than it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SandboxNeed {
    /// The attempt number of the new one.
    pub(crate) attempt: u32,
    /// The kubelet's text for the condition of the pod.
    pub(crate) message: &'static str,
}

// === impl ObservedPod ===

impl ObservedPod {
    /// Reads the sandboxes and containers with these ids; those that are gone are left out.
    pub(crate) async fn read(
        runtime: &dyn Runtime,
        sandboxes: &[SandboxId],
        containers: &[ContainerId],
    ) -> Result<Self, Error> {
        let mut observed = Self::default();
        for id in sandboxes {
            observed.sandboxes.extend(runtime.sandbox(id).await?);
        }
        for id in containers {
            observed.containers.extend(runtime.container(id).await?);
        }
        observed.sort();
        Ok(observed)
    }

    fn sort(&mut self) {
        self.sandboxes
            .sort_by_key(|one| Reverse((one.created_at, one.attempt)));
        self.containers
            .sort_by_key(|one| Reverse((one.created_at, one.attempt)));
    }

    /// Why containers cannot be started in the newest sandbox.
    pub(crate) fn sandbox_need(&self, uses_host_network: bool) -> Option<SandboxNeed> {
        let Some(newest) = self.sandboxes.first() else {
            let message = "no pod sandbox exists";
            return Some(SandboxNeed { attempt: 0, message });
        };
        let is_ready = |sandbox: &&SandboxRecord| sandbox.state == SandboxState::Ready;
        let message = if self.sandboxes.iter().filter(is_ready).count() > 1 {
            "multiple pod sandboxes are ready and need to be reconciled"
        } else if newest.state != SandboxState::Ready {
            "pod sandbox is not ready"
        } else if !uses_host_network && newest.addresses.is_empty() {
            "pod sandbox has no IP address"
        } else {
            return None;
        };
        Some(SandboxNeed {
            attempt: newest.attempt + 1,
            message,
        })
    }

    /// The addresses of the newest sandbox.
    pub(crate) fn addresses(&self) -> &[IpAddr] {
        let newest = self.sandboxes.first();
        newest.map_or(&[], |sandbox| sandbox.addresses.as_slice())
    }

    /// The newest container of this name.
    pub(crate) fn newest(&self, name: &str) -> Option<&ContainerRecord> {
        self.containers.iter().find(|container| container.name == name)
    }

    /// The newest container of this name that has exited, and how.
    pub(crate) fn newest_exited(&self, name: &str) -> Option<(&ContainerRecord, &ExitStatus)> {
        self.containers
            .iter()
            .find_map(|container| match &container.state {
                ContainerState::Exited(exit) if container.name == name => Some((container, exit)),
                _ => None,
            })
    }

    /// The newest container of this name, if it is in the newest sandbox.
    pub(crate) fn active(&self, name: &str) -> Option<&ContainerRecord> {
        let sandbox = &self.sandboxes.first()?.id;
        self.newest(name)
            .filter(|container| container.sandbox == *sandbox)
    }

    /// Whether one of these containers was started in the newest sandbox.
    pub(crate) fn has_active_started<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> bool {
        names.any(|name| {
            let active = self.active(name);
            active.is_some_and(|container| container.state != ContainerState::Created)
        })
    }

    /// The containers that run or may run.
    pub(crate) fn running(&self) -> impl Iterator<Item = &ContainerRecord> {
        self.containers.iter().filter(|container| is_running(container))
    }

    /// Whether the runtime has nothing of the pod.
    pub(crate) fn is_empty(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }

    /// Whether nothing of the pod runs.
    pub(crate) fn is_stopped(&self) -> bool {
        let ready = |sandbox: &SandboxRecord| sandbox.state == SandboxState::Ready;
        self.running().next().is_none() && !self.sandboxes.iter().any(ready)
    }
}

fn is_running(container: &ContainerRecord) -> bool {
    matches!(
        container.state,
        ContainerState::Running { .. } | ContainerState::Unknown
    )
}
