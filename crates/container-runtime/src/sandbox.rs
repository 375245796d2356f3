//! Sandboxes: the namespaces, the cgroup and the network of one pod.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;

use crate::RuntimeFuture;
use crate::container::Namespaces;

/// Runs and removes the sandboxes of pods.
pub trait SandboxService {
    /// Creates and starts a sandbox, with its network.
    fn run_sandbox(&self, config: SandboxConfig) -> RuntimeFuture<'_, SandboxId>;

    /// Stops the sandbox: kills its containers and releases its network.
    fn stop_sandbox(&self, id: &SandboxId) -> RuntimeFuture<'_, ()>;

    /// Removes a stopped sandbox with its containers.
    fn remove_sandbox(&self, id: &SandboxId) -> RuntimeFuture<'_, ()>;

    /// The sandbox with its addresses; `None` if there is none of this id.
    fn sandbox(&self, id: &SandboxId) -> RuntimeFuture<'_, Option<SandboxRecord>>;

    /// All sandboxes, without addresses.
    fn list_sandboxes(&self) -> RuntimeFuture<'_, Vec<SandboxRecord>>;
}

/// The runtime's id of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SandboxId(pub String);

/// The pod that a sandbox belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodIdentity {
    /// The node that the pod is bound to; a runtime of one node ignores it.
    pub node: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// What a sandbox is made of.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// The pod.
    pub pod: PodIdentity,
    /// How many sandboxes of this pod there were before.
    pub attempt: u32,
    /// The host name inside the sandbox; empty with the host's network.
    pub hostname: String,
    /// The directory of the logs of the pod's containers.
    pub log_directory: String,
    /// `resolv.conf` of the pod; `None` leaves the host's.
    pub dns: Option<DnsConfig>,
    /// Ports of the host that are forwarded to the sandbox.
    pub port_mappings: Vec<PortMapping>,
    /// Labels, by which other tools recognize pods.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pod.
    pub annotations: BTreeMap<String, String>,
    /// The namespaces shared with the host or between the containers.
    pub namespaces: Namespaces,
    /// The cgroup under which those of the containers are created; empty for the runtime's default.
    pub cgroup_parent: String,
    /// Kernel parameters.
    pub sysctls: BTreeMap<String, String>,
    /// Whether a container of the pod is privileged.
    pub privileged: bool,
    /// The user, group and supplementary groups of the sandbox's own process.
    pub run_as_user: Option<i64>,
    /// The group.
    pub run_as_group: Option<i64>,
    /// Supplementary groups.
    pub supplemental_groups: Vec<i64>,
    /// The name of the runtime's handler (RuntimeClass); empty for the default.
    pub handler: String,
}

/// `resolv.conf` of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DnsConfig {
    /// Addresses of name servers.
    pub servers: Vec<String>,
    /// Search domains.
    pub searches: Vec<String>,
    /// Options such as `ndots:5`.
    pub options: Vec<String>,
}

/// A port of the host that is forwarded to a container's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortMapping {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The port inside the sandbox.
    pub container_port: u16,
    /// The port on the host.
    pub host_port: u16,
    /// The address on the host; empty for all.
    pub host_ip: String,
}

/// A sandbox as the runtime has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxRecord {
    /// Its id.
    pub id: SandboxId,
    /// The pod it belongs to. `node` is empty if the runtime does not know it.
    pub pod: PodIdentity,
    /// Which one of the pod it is.
    pub attempt: u32,
    /// Whether it is usable.
    pub state: SandboxState,
    /// When it was created.
    pub created_at: Timestamp,
    /// The addresses of the pod; empty with the host's network, and in lists.
    pub addresses: Vec<IpAddr>,
}

/// Whether containers can be started in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxState {
    /// Its network and its own process are there.
    Ready,
    /// It was stopped, or its own process died.
    NotReady,
}
