//! Containers of a sandbox.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::RuntimeFuture;
use crate::sandbox::{SandboxConfig, SandboxId};

/// Creates, starts, stops and removes containers.
pub trait ContainerService {
    /// Creates a container in a sandbox, whose configuration is that of [`run_sandbox`].
    ///
    /// [`run_sandbox`]: crate::SandboxService::run_sandbox
    fn create_container<'a>(
        &'a self,
        sandbox: &'a SandboxId,
        config: ContainerConfig,
        sandbox_config: &'a SandboxConfig,
    ) -> RuntimeFuture<'a, ContainerId>;

    /// Starts a created container.
    fn start_container(&self, id: &ContainerId) -> RuntimeFuture<'_, ()>;

    /// Stops the container: its stop signal, and after the grace period SIGKILL. Returns when it has stopped.
    fn stop_container(&self, id: &ContainerId, grace: Duration) -> RuntimeFuture<'_, ()>;

    /// Removes a container that does not run.
    fn remove_container(&self, id: &ContainerId) -> RuntimeFuture<'_, ()>;

    /// The container with all details; `None` if there is none of this id.
    fn container(&self, id: &ContainerId) -> RuntimeFuture<'_, Option<ContainerRecord>>;

    /// All containers, with id, sandbox, name, attempt and state; other details may be missing.
    fn list_containers(&self) -> RuntimeFuture<'_, Vec<ContainerRecord>>;

    /// Changes the resources of a running container.
    fn update_container(&self, id: &ContainerId, resources: Resources) -> RuntimeFuture<'_, ()>;

    /// Reopens the log file of a container after it was rotated.
    fn reopen_log(&self, id: &ContainerId) -> RuntimeFuture<'_, ()>;
}

/// The runtime's id of a container.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerId(pub String);

/// What a container is made of.
#[derive(Debug, Clone, Default)]
pub struct ContainerConfig {
    /// Its name in the pod.
    pub name: String,
    /// How often the container of this name was created in the pod before.
    pub attempt: u32,
    /// The reference or id of its image, which is present.
    pub image: String,
    /// The image as the pod names it.
    pub user_specified_image: String,
    /// Replaces the image's entry point, unless empty.
    pub command: Vec<String>,
    /// Replaces the image's arguments, unless empty.
    pub args: Vec<String>,
    /// The working directory; empty for the image's.
    pub working_dir: String,
    /// Environment variables, in order.
    pub env: Vec<(String, String)>,
    /// Mounted directories and files.
    pub mounts: Vec<Mount>,
    /// Devices of the host.
    pub devices: Vec<Device>,
    /// Labels, by which other tools recognize containers.
    pub labels: BTreeMap<String, String>,
    /// Annotations: restart count, grace period, termination message path.
    pub annotations: BTreeMap<String, String>,
    /// The log file, relative to the sandbox's log directory.
    pub log_path: String,
    /// Whether standard input stays open.
    pub stdin: bool,
    /// Whether standard input is closed after the first client.
    pub stdin_once: bool,
    /// Whether the container has a terminal.
    pub tty: bool,
    /// Limits and requests.
    pub resources: Resources,
    /// User, capabilities and the like.
    pub security: Security,
    /// The signal that stops it, such as `SIGUSR1`; empty for the image's.
    pub stop_signal: String,
}

/// A mount of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mount {
    /// The path in the container.
    pub container_path: String,
    /// The path on the host; empty with an image.
    pub host_path: String,
    /// The image whose content is mounted; empty otherwise.
    pub image: String,
    /// The path inside that image.
    pub image_sub_path: String,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Whether mounts below it are read-only too.
    pub recursive_read_only: bool,
    /// How mounts made later are seen on the other side.
    pub propagation: Propagation,
}

/// How mounts below a mount are seen on the other side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Propagation {
    /// Not at all.
    #[default]
    Private,
    /// Those of the host are seen in the container.
    HostToContainer,
    /// Both ways.
    Bidirectional,
}

/// A device of the host in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The path on the host.
    pub host_path: String,
    /// The path in the container.
    pub container_path: String,
    /// Of `r`, `w` and `m`.
    pub permissions: String,
}

/// The resources of a container, in the kernel's units. Zero leaves a value to the runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    /// The relative weight of its CPU time.
    pub cpu_shares: i64,
    /// The period of the CPU quota in microseconds.
    pub cpu_period: i64,
    /// The CPU time per period in microseconds.
    pub cpu_quota: i64,
    /// The memory limit in bytes.
    pub memory_limit: i64,
    /// The adjustment of the kernel's choice when memory runs out.
    pub oom_score_adj: i64,
    /// Limits of huge pages, by page size as in `2MB`.
    pub huge_pages: Vec<(String, u64)>,
    /// Further settings of cgroup v2, by file name.
    pub unified: BTreeMap<String, String>,
}

/// The namespaces that are not of the container itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Namespaces {
    /// The pod uses the host's network.
    pub host_network: bool,
    /// The pod sees the host's processes.
    pub host_pid: bool,
    /// The pod uses the host's interprocess communication.
    pub host_ipc: bool,
    /// The containers of the pod see each other's processes.
    pub share_process_namespace: bool,
    /// The pod's users are the host's; false requests a user namespace.
    pub host_users: bool,
}

/// The security settings of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Security {
    /// All rights of the host.
    pub privileged: bool,
    /// The user by number.
    pub run_as_user: Option<i64>,
    /// The user by name, if it has no number; from the image.
    pub run_as_username: String,
    /// The group.
    pub run_as_group: Option<i64>,
    /// Supplementary groups.
    pub supplemental_groups: Vec<i64>,
    /// Whether groups of the image's user are left out.
    pub strict_supplemental_groups: bool,
    /// Whether the root file system is read-only.
    pub read_only_root: bool,
    /// Whether processes may not gain privileges.
    pub no_new_privileges: bool,
    /// Capabilities added, without `CAP_`.
    pub add_capabilities: Vec<String>,
    /// Capabilities dropped, without `CAP_`.
    pub drop_capabilities: Vec<String>,
    /// The seccomp profile.
    pub seccomp: SeccompProfile,
    /// Paths hidden from the container.
    pub masked_paths: Vec<String>,
    /// Paths that are read-only in the container.
    pub readonly_paths: Vec<String>,
    /// The process namespace shared with another container of the pod (ephemeral containers).
    pub target_container: Option<ContainerId>,
    /// The namespaces shared with the host or the pod.
    pub namespaces: Namespaces,
}

/// The seccomp profile of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SeccompProfile {
    /// No profile.
    #[default]
    Unconfined,
    /// The runtime's own.
    RuntimeDefault,
    /// The profile in this file of the node.
    Localhost(String),
}

/// A container as the runtime has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRecord {
    /// Its id.
    pub id: ContainerId,
    /// The sandbox it is in.
    pub sandbox: SandboxId,
    /// Its name in the pod.
    pub name: String,
    /// How often the container of this name was created before.
    pub attempt: u32,
    /// The image as the runtime names it.
    pub image: String,
    /// The id or digest reference of the image, as pod statuses have it.
    pub image_id: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// What it does.
    pub state: ContainerState,
    /// The file of its log.
    pub log_path: String,
    /// Its resources in force, if the runtime reports it.
    pub resources: Option<Resources>,
    /// The user of its first process, if the runtime reports it: user, group, supplementary groups.
    pub user: Option<(i64, i64, Vec<i64>)>,
}

/// What a container does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerState {
    /// Created, and not started.
    Created,
    /// Running.
    Running {
        /// Since when.
        started_at: Timestamp,
    },
    /// Ended.
    Exited(ExitStatus),
    /// The runtime does not know.
    Unknown,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitStatus {
    /// When it was started; the Unix epoch if it never was.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// The exit code; 128 and the signal for a signal.
    pub exit_code: i32,
    /// `Completed`, `Error`, `OOMKilled`, `ContainerCannotRun`, `StartError`.
    pub reason: String,
    /// More about it.
    pub message: String,
}
