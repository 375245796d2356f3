//! [`Setup`]: configurations of sandboxes and containers, and the volumes and files that must be there before.

mod host;
pub(crate) mod simulated;

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Secret};
use setpoint_api::{Clock, Status};
use setpoint_client::Client;
use setpoint_container_runtime::container::Resources;
use setpoint_container_runtime::{ContainerConfig, ContainerId, Image, SandboxConfig};

use super::bound_pod::{BoundPod, ContainerIndex};
use super::observed::ObservedPod;
use crate::container_config::container_resources;
use crate::image_pulls::PullRecords;
use crate::volumes::MountedVolumes;

pub(crate) use host::HostSetup;

/// What a sandbox or container needs besides the runtime.
#[derive(Debug)]
pub(crate) enum Setup {
    /// Nothing: containers are simulated.
    Simulated,
    /// Volumes and files on this machine.
    Host(HostSetup),
}

/// A container to configure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContainerSetup<'a> {
    pub(crate) pod: &'a BoundPod,
    pub(crate) at: ContainerIndex,
    pub(crate) attempt: u32,
    pub(crate) image: &'a Image,
    /// The addresses of the pod.
    pub(crate) addresses: &'a [IpAddr],
    pub(crate) volumes: &'a MountedVolumes,
    /// The container whose processes an ephemeral container shares.
    pub(crate) target: Option<&'a ContainerId>,
}

impl Setup {
    /// Creates the cgroup of the pod. `Err` is the text of the failure.
    pub(crate) fn ensure_cgroup(&self, pod: &BoundPod) -> Result<(), String> {
        match self {
            Self::Simulated => Ok(()),
            Self::Host(host) => host.ensure_cgroup(pod),
        }
    }

    /// Changes the limits of the pod's cgroup to those of its spec. `Err` is the text of the failure.
    pub(crate) fn update_cgroup(&self, pod: &BoundPod) -> Result<(), String> {
        match self {
            Self::Host(HostSetup {
                cgroups: Some(cgroups),
                node,
                ..
            }) => cgroups
                .update(&pod.object, node)
                .map_err(|error| error.to_string()),
            _ => Ok(()),
        }
    }

    /// The resources of a container in the kernel's units.
    pub(crate) fn container_resources(&self, pod: &BoundPod, container: &Container) -> Resources {
        match self {
            Self::Host(host) => container_resources(&pod.object, container, &host.node),
            Self::Simulated => Resources::default(),
        }
    }

    /// How images were pulled; `None` if none is ever pulled.
    pub(crate) fn pull_records(&self) -> Option<&PullRecords> {
        match self {
            Self::Simulated => None,
            Self::Host(host) => Some(&host.pull_records),
        }
    }

    /// A Secret that a pod refers to.
    pub(crate) async fn secret(
        &self,
        namespace: &str,
        name: &str,
        client: &Client,
    ) -> Result<Secret, Status> {
        let read = match self {
            Self::Host(host) => host.volumes.secret(namespace, name).await,
            Self::Simulated => client.namespaced::<Secret>(namespace).dynamic().get(name).await,
        };
        read?.decode().map_err(Status::internal)
    }

    /// Counts a running pod for the weight of its class.
    pub(crate) fn add_to_class(&self, pod: &BoundPod) {
        if let Self::Host(HostSetup {
            cgroups: Some(cgroups),
            ..
        }) = self
        {
            cgroups.add(&pod.object);
        }
    }

    /// Removes the cgroup of a pod of which nothing runs.
    pub(crate) async fn remove_cgroup(&self, uid: &str, clock: &dyn Clock) {
        if let Self::Host(HostSetup {
            cgroups: Some(cgroups),
            ..
        }) = self
        {
            cgroups.remove(uid, clock).await;
        }
    }

    /// The uids of all pods that have a cgroup.
    pub(crate) fn pods_with_cgroups(&self) -> BTreeSet<String> {
        match self {
            Self::Host(HostSetup {
                cgroups: Some(cgroups),
                ..
            }) => cgroups.pods(),
            _ => BTreeSet::new(),
        }
    }

    /// Mounts the volumes of the pod. `Err` is the text of the failure.
    pub(crate) async fn mount(&self, pod: &BoundPod) -> Result<MountedVolumes, String> {
        match self {
            Self::Simulated => Ok(MountedVolumes::default()),
            Self::Host(host) => host.mount(pod).await,
        }
    }

    /// Lets the volumes of a pod follow its labels and annotations.
    pub(crate) fn update_volumes(&self, pod: &BoundPod) {
        if let Self::Host(host) = self {
            host.volumes.update_pod(&pod.object);
        }
    }

    /// Removes the volumes and files of a pod that is removed.
    pub(crate) async fn unmount(&self, uid: &str) {
        if let Self::Host(host) = self {
            host.unmount(uid).await;
        }
    }

    /// The configuration of a sandbox.
    pub(crate) fn sandbox_config(&self, pod: &BoundPod, attempt: u32) -> Result<SandboxConfig, String> {
        match self {
            Self::Simulated => Ok(simulated::sandbox_config(pod, attempt)),
            Self::Host(host) => host.sandbox_config(pod, attempt),
        }
    }

    /// The configuration of a container. `Err` is the kubelet's text.
    pub(crate) async fn container_config(
        &self,
        setup: ContainerSetup<'_>,
    ) -> Result<ContainerConfig, String> {
        match self {
            Self::Simulated => Ok(simulated::container_config(setup.pod, setup.at, setup.attempt)),
            Self::Host(host) => host.container_config(setup).await,
        }
    }

    /// Adds the termination messages that containers wrote to what the runtime reports.
    pub(crate) fn add_termination_messages(&self, pod: &BoundPod, observed: &mut ObservedPod) {
        if let Self::Host(host) = self {
            host.add_termination_messages(pod, observed);
        }
    }
}
