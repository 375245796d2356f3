//! Configurations for the simulated runtime, which needs little of a pod: pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use setpoint_container_runtime::container::Namespaces;
use setpoint_container_runtime::{ContainerConfig, PodIdentity, SandboxConfig};

use super::super::bound_pod::{BoundPod, ContainerIndex, ContainerKind, is_sidecar};
use super::super::plan::{CONTAINER_HASH, container_hash};
use crate::simulated::{rules, usage};

/// The sandbox of a pod: its identity, and the annotations that a simulated runtime follows.
pub(crate) fn sandbox_config(pod: &BoundPod, attempt: u32) -> SandboxConfig {
    let spec = pod.spec();
    SandboxConfig {
        pod: identity(pod),
        attempt,
        hostname: spec.hostname.clone().unwrap_or_else(|| pod.key.name().to_owned()),
        log_directory: String::new(),
        dns: None,
        port_mappings: Vec::new(),
        labels: pod.object.metadata.labels.clone().unwrap_or_default(),
        annotations: pod.object.metadata.annotations.clone().unwrap_or_default(),
        namespaces: Namespaces {
            host_network: pod.uses_host_network(),
            host_pid: spec.host_pid == Some(true),
            host_ipc: spec.host_ipc == Some(true),
            share_process_namespace: spec.share_process_namespace == Some(true),
            host_users: spec.host_users != Some(false),
        },
        cgroup_parent: String::new(),
        sysctls: BTreeMap::new(),
        privileged: false,
        run_as_user: None,
        run_as_group: None,
        supplemental_groups: Vec::new(),
        handler: String::new(),
    }
}

/// A container as a simulated runtime needs it. Init containers end at once, and sidecars do not end with the others.
pub(crate) fn container_config(pod: &BoundPod, at: ContainerIndex, attempt: u32) -> ContainerConfig {
    let container = pod.container(at);
    let image = container.image.clone().unwrap_or_default();
    let mut annotations = BTreeMap::from([(CONTAINER_HASH.to_owned(), container_hash(container))]);
    usage::annotate(container, &mut annotations);
    if at.kind == ContainerKind::Init {
        let lifetime = if is_sidecar(container) { rules::NEVER } else { "0s" };
        annotations.insert(rules::ENDS_AFTER.to_owned(), lifetime.to_owned());
    }
    ContainerConfig {
        name: container.name.clone(),
        attempt,
        user_specified_image: image.clone(),
        image,
        command: container.command.clone().unwrap_or_default(),
        args: container.args.clone().unwrap_or_default(),
        working_dir: container.working_dir.clone().unwrap_or_default(),
        env: plain_env(container),
        annotations,
        tty: container.tty == Some(true),
        stdin: container.stdin == Some(true),
        ..ContainerConfig::default()
    }
}

fn plain_env(container: &v1::Container) -> Vec<(String, String)> {
    let env = container.env.iter().flatten();
    let plain = env.filter(|var| var.value_from.is_none());
    plain
        .map(|var| (var.name.clone(), var.value.clone().unwrap_or_default()))
        .collect()
}

fn identity(pod: &BoundPod) -> PodIdentity {
    PodIdentity {
        node: pod.spec().node_name.clone().unwrap_or_default(),
        namespace: pod.key.namespace().to_owned(),
        name: pod.key.name().to_owned(),
        uid: pod.uid().to_owned(),
    }
}
