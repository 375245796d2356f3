//! Configurations of sandboxes and containers, from a pod's spec and the facts of its node.
//!
//! A pod's spec becomes what the runtime needs: environment, mounts, users, resources, DNS. All of it is a
//! function of values, except [`files`], which writes the few files that the agent mounts into containers. Errors have
//! the kubelet's texts; the agent reports them as `CreateContainerConfigError`.
//!
//! Start reading at [`sandbox_config`] and [`container_config`].

mod command;
mod dns;
mod downward;
mod env;
mod expansion;
pub mod files;
mod hosts;
pub mod labels;
mod mounts;
pub(crate) mod pod_resources;
pub mod qos;
mod resources;
mod sandbox;
mod security;
mod service_env;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use k8s_openapi::api::core::v1;
use setpoint_container_runtime::sandbox::DnsConfig;
use setpoint_container_runtime::{ContainerConfig, ContainerId};

use crate::volumes::MountedVolumes;

pub use dns::parse_resolv_conf;
pub(crate) use downward::{field_value, resource_value};
pub use env::{EnvSources, SourceError};
pub use files::{hosts_path, pod_directory, termination_message_path};
pub use resources::container_resources;
pub(crate) use resources::{CPU_PERIOD, cpu_quota, cpu_shares, huge_pages};
pub use sandbox::{cgroup_parent, log_directory, sandbox_config};
pub use service_env::ServiceView;

/// The facts of a node that configurations depend on.
#[derive(Debug, Clone, Default)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Its addresses, the first one preferred.
    pub addresses: Vec<IpAddr>,
    /// What pods can use, by resource, as quantities.
    pub allocatable: BTreeMap<String, String>,
    /// Its memory in bytes.
    pub memory_capacity: i64,
    /// The addresses of the cluster's DNS service; empty while there is none.
    pub cluster_dns: Vec<IpAddr>,
    /// The domain of the cluster, as in `cluster.local`.
    pub cluster_domain: String,
    /// `resolv.conf` of the node.
    pub host_dns: DnsConfig,
    /// The directory of the pods' logs, as in `/var/log/pods`.
    pub logs_root: PathBuf,
    /// The directory of everything else that the agent keeps, with `pods/<uid>` below it.
    pub root: PathBuf,
    /// The cgroup of all pods, as in `/kubepods`.
    pub cgroup_root: String,
}

/// Everything that the configuration of one container is made of.
#[derive(Debug, Clone, Copy)]
pub struct ContainerRequest<'a> {
    /// The pod.
    pub pod: &'a v1::Pod,
    /// The container. One of an ephemeral container is made by [`from_ephemeral`].
    pub container: &'a v1::Container,
    /// The node.
    pub node: &'a NodeFacts,
    /// How often a container of this name was created in the pod before.
    pub attempt: u32,
    /// The image on the node.
    pub image: &'a ImageFacts,
    /// The addresses of the pod, the first one preferred.
    pub pod_addresses: &'a [IpAddr],
    /// The pod's volumes.
    pub volumes: &'a MountedVolumes,
    /// The objects that the environment refers to.
    pub sources: &'a EnvSources,
    /// The container whose processes an ephemeral container shares.
    pub target: Option<&'a ContainerId>,
}

/// The facts of an image that a configuration depends on.
#[derive(Debug, Clone, Default)]
pub struct ImageFacts {
    /// Its id or reference, by which the runtime finds it.
    pub reference: String,
    /// The user it runs as, if that is a number.
    pub uid: Option<i64>,
    /// The user it runs as, if that is a name.
    pub username: String,
}

/// Why a configuration cannot be made, in the kubelet's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// The configuration of a container. Creates the files that are mounted into it.
pub fn container_config(request: ContainerRequest<'_>) -> Result<ContainerConfig, ConfigError> {
    let container = request.container;
    let security = security::container_security(&request)?;
    let env = env::environment(&request)?;
    let mounts = mounts::mounts(&request, &env)?;
    let (command, args) = command::command(container, &env);
    Ok(ContainerConfig {
        name: container.name.clone(),
        attempt: request.attempt,
        image: request.image.reference.clone(),
        user_specified_image: container.image.clone().unwrap_or_default(),
        command,
        args,
        working_dir: container.working_dir.clone().unwrap_or_default(),
        env: env.into_iter().collect(),
        mounts,
        devices: Vec::new(),
        labels: labels::container_labels(request.pod, container),
        annotations: labels::container_annotations(request.pod, container, request.attempt),
        log_path: format!("{}/{}.log", container.name, request.attempt),
        stdin: container.stdin.unwrap_or_default(),
        stdin_once: container.stdin_once.unwrap_or_default(),
        tty: container.tty.unwrap_or_default(),
        resources: container_resources(request.pod, container, request.node),
        security,
        stop_signal: stop_signal(container),
    })
}

/// An ephemeral container as a container, whose fields it shares.
pub fn from_ephemeral(ephemeral: &v1::EphemeralContainer) -> v1::Container {
    let one = ephemeral.clone();
    v1::Container {
        args: one.args,
        command: one.command,
        env: one.env,
        env_from: one.env_from,
        image: one.image,
        image_pull_policy: one.image_pull_policy,
        name: one.name,
        resources: one.resources,
        security_context: one.security_context,
        stdin: one.stdin,
        stdin_once: one.stdin_once,
        termination_message_path: one.termination_message_path,
        termination_message_policy: one.termination_message_policy,
        tty: one.tty,
        volume_devices: one.volume_devices,
        volume_mounts: one.volume_mounts,
        working_dir: one.working_dir,
        ..v1::Container::default()
    }
}

fn stop_signal(container: &v1::Container) -> String {
    let lifecycle = container.lifecycle.as_ref();
    let signal = lifecycle.and_then(|lifecycle| lifecycle.stop_signal.clone());
    signal.unwrap_or_default()
}

/// The pod's spec; that of a pod without one is empty.
pub(crate) fn spec(pod: &v1::Pod) -> std::borrow::Cow<'_, v1::PodSpec> {
    match &pod.spec {
        Some(spec) => std::borrow::Cow::Borrowed(spec),
        None => std::borrow::Cow::Owned(v1::PodSpec::default()),
    }
}

/// The pod as the kubelet names it in errors: `name_namespace(uid)`.
pub(crate) fn format_pod(pod: &v1::Pod) -> String {
    let [name, namespace, uid] = identity(pod);
    format!("{name}_{namespace}({uid})")
}

/// Name, namespace and uid.
pub(crate) fn identity(pod: &v1::Pod) -> [&str; 3] {
    let metadata = &pod.metadata;
    [&metadata.name, &metadata.namespace, &metadata.uid].map(|text| text.as_deref().unwrap_or_default())
}
