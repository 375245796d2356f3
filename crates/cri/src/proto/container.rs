//! Messages about containers.

use std::collections::BTreeMap;

use super::Int64Value;
use super::image::ImageSpec;
use super::sandbox::{NamespaceOption, PodSandboxConfig};

/// Request to create a container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CreateContainerRequest {
    #[prost(string, tag = "1")]
    pub(crate) pod_sandbox_id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) config: Option<ContainerConfig>,
    #[prost(message, optional, tag = "3")]
    pub(crate) sandbox_config: Option<PodSandboxConfig>,
}

/// Configuration of a container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerConfig {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "2")]
    pub(crate) image: Option<ImageSpec>,
    #[prost(string, repeated, tag = "3")]
    pub(crate) command: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub(crate) args: Vec<String>,
    #[prost(string, tag = "5")]
    pub(crate) working_dir: String,
    #[prost(message, repeated, tag = "6")]
    pub(crate) envs: Vec<KeyValue>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) mounts: Vec<Mount>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) devices: Vec<Device>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub(crate) labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "10")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[prost(string, tag = "11")]
    pub(crate) log_path: String,
    #[prost(bool, tag = "12")]
    pub(crate) stdin: bool,
    #[prost(bool, tag = "13")]
    pub(crate) stdin_once: bool,
    #[prost(bool, tag = "14")]
    pub(crate) tty: bool,
    #[prost(message, optional, tag = "15")]
    pub(crate) linux: Option<LinuxContainerConfig>,
    #[prost(int32, tag = "18")]
    pub(crate) stop_signal: i32,
}

/// Identity of a container in its pod.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerMetadata {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(uint32, tag = "2")]
    pub(crate) attempt: u32,
}

/// An environment variable.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// A mount of a container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Mount {
    #[prost(string, tag = "1")]
    pub(crate) container_path: String,
    #[prost(string, tag = "2")]
    pub(crate) host_path: String,
    #[prost(bool, tag = "3")]
    pub(crate) readonly: bool,
    #[prost(int32, tag = "5")]
    pub(crate) propagation: i32,
    #[prost(bool, tag = "8")]
    pub(crate) recursive_read_only: bool,
    #[prost(message, optional, tag = "9")]
    pub(crate) image: Option<ImageSpec>,
    #[prost(string, tag = "10")]
    pub(crate) image_sub_path: String,
}

/// A device of a container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Device {
    #[prost(string, tag = "1")]
    pub(crate) container_path: String,
    #[prost(string, tag = "2")]
    pub(crate) host_path: String,
    #[prost(string, tag = "3")]
    pub(crate) permissions: String,
}

/// Linux settings of a container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LinuxContainerConfig {
    #[prost(message, optional, tag = "1")]
    pub(crate) resources: Option<LinuxContainerResources>,
    #[prost(message, optional, tag = "2")]
    pub(crate) security_context: Option<LinuxContainerSecurityContext>,
}

/// Resources of a container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LinuxContainerResources {
    #[prost(int64, tag = "1")]
    pub(crate) cpu_period: i64,
    #[prost(int64, tag = "2")]
    pub(crate) cpu_quota: i64,
    #[prost(int64, tag = "3")]
    pub(crate) cpu_shares: i64,
    #[prost(int64, tag = "4")]
    pub(crate) memory_limit_in_bytes: i64,
    #[prost(int64, tag = "5")]
    pub(crate) oom_score_adj: i64,
    #[prost(message, repeated, tag = "8")]
    pub(crate) hugepage_limits: Vec<HugepageLimit>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub(crate) unified: BTreeMap<String, String>,
}

/// A limit of huge pages.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HugepageLimit {
    #[prost(string, tag = "1")]
    pub(crate) page_size: String,
    #[prost(uint64, tag = "2")]
    pub(crate) limit: u64,
}

/// Security settings of a container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LinuxContainerSecurityContext {
    #[prost(message, optional, tag = "1")]
    pub(crate) capabilities: Option<Capability>,
    #[prost(bool, tag = "2")]
    pub(crate) privileged: bool,
    #[prost(message, optional, tag = "3")]
    pub(crate) namespace_options: Option<NamespaceOption>,
    #[prost(message, optional, tag = "5")]
    pub(crate) run_as_user: Option<Int64Value>,
    #[prost(message, optional, tag = "12")]
    pub(crate) run_as_group: Option<Int64Value>,
    #[prost(string, tag = "6")]
    pub(crate) run_as_username: String,
    #[prost(bool, tag = "7")]
    pub(crate) readonly_rootfs: bool,
    #[prost(int64, repeated, tag = "8")]
    pub(crate) supplemental_groups: Vec<i64>,
    #[prost(int32, tag = "17")]
    pub(crate) supplemental_groups_policy: i32,
    #[prost(bool, tag = "11")]
    pub(crate) no_new_privs: bool,
    #[prost(string, repeated, tag = "13")]
    pub(crate) masked_paths: Vec<String>,
    #[prost(string, repeated, tag = "14")]
    pub(crate) readonly_paths: Vec<String>,
    #[prost(message, optional, tag = "15")]
    pub(crate) seccomp: Option<SecurityProfile>,
}

/// Added and dropped capabilities.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Capability {
    #[prost(string, repeated, tag = "1")]
    pub(crate) add_capabilities: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) drop_capabilities: Vec<String>,
}

/// A seccomp profile.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SecurityProfile {
    #[prost(int32, tag = "1")]
    pub(crate) profile_type: i32,
    #[prost(string, tag = "2")]
    pub(crate) localhost_ref: String,
}

/// The id of a new container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CreateContainerResponse {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
}

/// Request about one container: start, remove, reopen its log.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerRequest {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
}

/// Request to stop a container, with the grace period in seconds.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StopContainerRequest {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
    #[prost(int64, tag = "2")]
    pub(crate) timeout: i64,
}

/// Request for the status of a container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerStatusRequest {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
    #[prost(bool, tag = "2")]
    pub(crate) verbose: bool,
}

/// The status of a container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<ContainerStatus>,
}

/// A container with all details.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerStatus {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) metadata: Option<ContainerMetadata>,
    #[prost(int32, tag = "3")]
    pub(crate) state: i32,
    #[prost(int64, tag = "4")]
    pub(crate) created_at: i64,
    #[prost(int64, tag = "5")]
    pub(crate) started_at: i64,
    #[prost(int64, tag = "6")]
    pub(crate) finished_at: i64,
    #[prost(int32, tag = "7")]
    pub(crate) exit_code: i32,
    #[prost(message, optional, tag = "8")]
    pub(crate) image: Option<ImageSpec>,
    #[prost(string, tag = "9")]
    pub(crate) image_ref: String,
    #[prost(string, tag = "10")]
    pub(crate) reason: String,
    #[prost(string, tag = "11")]
    pub(crate) message: String,
    #[prost(btree_map = "string, string", tag = "12")]
    pub(crate) labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "13")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[prost(string, tag = "15")]
    pub(crate) log_path: String,
    #[prost(message, optional, tag = "16")]
    pub(crate) resources: Option<ContainerResources>,
    #[prost(string, tag = "17")]
    pub(crate) image_id: String,
    #[prost(message, optional, tag = "18")]
    pub(crate) user: Option<ContainerUser>,
}

/// The resources in force.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerResources {
    #[prost(message, optional, tag = "1")]
    pub(crate) linux: Option<LinuxContainerResources>,
}

/// The user of the first process.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerUser {
    #[prost(message, optional, tag = "1")]
    pub(crate) linux: Option<LinuxContainerUser>,
}

/// User, group and supplementary groups.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LinuxContainerUser {
    #[prost(int64, tag = "1")]
    pub(crate) uid: i64,
    #[prost(int64, tag = "2")]
    pub(crate) gid: i64,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) supplemental_groups: Vec<i64>,
}

/// All containers.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ListContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) containers: Vec<Container>,
}

/// A container in a list.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Container {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) pod_sandbox_id: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "4")]
    pub(crate) image: Option<ImageSpec>,
    #[prost(string, tag = "5")]
    pub(crate) image_ref: String,
    #[prost(int32, tag = "6")]
    pub(crate) state: i32,
    #[prost(int64, tag = "7")]
    pub(crate) created_at: i64,
    #[prost(btree_map = "string, string", tag = "8")]
    pub(crate) labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[prost(string, tag = "10")]
    pub(crate) image_id: String,
}

/// Request to change resources.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct UpdateContainerResourcesRequest {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) linux: Option<LinuxContainerResources>,
}

/// Request to run a command, with the time limit in seconds.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExecSyncRequest {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
    #[prost(string, repeated, tag = "2")]
    pub(crate) cmd: Vec<String>,
    #[prost(int64, tag = "3")]
    pub(crate) timeout: i64,
}

/// The output of a command.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExecSyncResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) stdout: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) stderr: Vec<u8>,
    #[prost(int32, tag = "3")]
    pub(crate) exit_code: i32,
}

/// Request for the URL of a command's streams.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExecRequest {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
    #[prost(string, repeated, tag = "2")]
    pub(crate) cmd: Vec<String>,
    #[prost(bool, tag = "3")]
    pub(crate) tty: bool,
    #[prost(bool, tag = "4")]
    pub(crate) stdin: bool,
    #[prost(bool, tag = "5")]
    pub(crate) stdout: bool,
    #[prost(bool, tag = "6")]
    pub(crate) stderr: bool,
}

/// Request for the URL of a container's streams.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AttachRequest {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
    #[prost(bool, tag = "2")]
    pub(crate) stdin: bool,
    #[prost(bool, tag = "3")]
    pub(crate) tty: bool,
    #[prost(bool, tag = "4")]
    pub(crate) stdout: bool,
    #[prost(bool, tag = "5")]
    pub(crate) stderr: bool,
}

/// The URL of the streams.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StreamResponse {
    #[prost(string, tag = "1")]
    pub(crate) url: String,
}
