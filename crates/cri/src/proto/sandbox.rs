//! Messages about sandboxes.

use std::collections::BTreeMap;

use super::Int64Value;
use super::container::SecurityProfile;

/// Request to run a sandbox.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RunPodSandboxRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) config: Option<PodSandboxConfig>,
    #[prost(string, tag = "2")]
    pub(crate) runtime_handler: String,
}

/// Configuration of a sandbox.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandboxConfig {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<PodSandboxMetadata>,
    #[prost(string, tag = "2")]
    pub(crate) hostname: String,
    #[prost(string, tag = "3")]
    pub(crate) log_directory: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) dns_config: Option<DnsConfig>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) port_mappings: Vec<PortMapping>,
    #[prost(btree_map = "string, string", tag = "6")]
    pub(crate) labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "7")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[prost(message, optional, tag = "8")]
    pub(crate) linux: Option<LinuxPodSandboxConfig>,
}

/// Identity of a sandbox.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandboxMetadata {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) uid: String,
    #[prost(string, tag = "3")]
    pub(crate) namespace: String,
    #[prost(uint32, tag = "4")]
    pub(crate) attempt: u32,
}

/// `resolv.conf` of a pod.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DnsConfig {
    #[prost(string, repeated, tag = "1")]
    pub(crate) servers: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) searches: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub(crate) options: Vec<String>,
}

/// A port of the host that is forwarded.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PortMapping {
    #[prost(int32, tag = "1")]
    pub(crate) protocol: i32,
    #[prost(int32, tag = "2")]
    pub(crate) container_port: i32,
    #[prost(int32, tag = "3")]
    pub(crate) host_port: i32,
    #[prost(string, tag = "4")]
    pub(crate) host_ip: String,
}

/// Linux settings of a sandbox.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LinuxPodSandboxConfig {
    #[prost(string, tag = "1")]
    pub(crate) cgroup_parent: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) security_context: Option<LinuxSandboxSecurityContext>,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(crate) sysctls: BTreeMap<String, String>,
}

/// Security settings of a sandbox.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LinuxSandboxSecurityContext {
    #[prost(message, optional, tag = "1")]
    pub(crate) namespace_options: Option<NamespaceOption>,
    #[prost(message, optional, tag = "3")]
    pub(crate) run_as_user: Option<Int64Value>,
    #[prost(message, optional, tag = "8")]
    pub(crate) run_as_group: Option<Int64Value>,
    #[prost(int64, repeated, tag = "5")]
    pub(crate) supplemental_groups: Vec<i64>,
    #[prost(bool, tag = "6")]
    pub(crate) privileged: bool,
    #[prost(message, optional, tag = "9")]
    pub(crate) seccomp: Option<SecurityProfile>,
}

/// The namespaces of a sandbox or a container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct NamespaceOption {
    #[prost(int32, tag = "1")]
    pub(crate) network: i32,
    #[prost(int32, tag = "2")]
    pub(crate) pid: i32,
    #[prost(int32, tag = "3")]
    pub(crate) ipc: i32,
    #[prost(string, tag = "4")]
    pub(crate) target_id: String,
    #[prost(message, optional, tag = "5")]
    pub(crate) userns_options: Option<UserNamespace>,
}

/// The user namespace of a sandbox.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct UserNamespace {
    #[prost(int32, tag = "1")]
    pub(crate) mode: i32,
}

/// The id of a new sandbox.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RunPodSandboxResponse {
    #[prost(string, tag = "1")]
    pub(crate) pod_sandbox_id: String,
}

/// Request about one sandbox: stop, remove.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandboxRequest {
    #[prost(string, tag = "1")]
    pub(crate) pod_sandbox_id: String,
}

/// Request for the status of a sandbox.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandboxStatusRequest {
    #[prost(string, tag = "1")]
    pub(crate) pod_sandbox_id: String,
    #[prost(bool, tag = "2")]
    pub(crate) verbose: bool,
}

/// The status of a sandbox.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandboxStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<PodSandboxStatus>,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(crate) info: BTreeMap<String, String>,
}

/// A sandbox with its network.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandboxStatus {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) metadata: Option<PodSandboxMetadata>,
    #[prost(int32, tag = "3")]
    pub(crate) state: i32,
    #[prost(int64, tag = "4")]
    pub(crate) created_at: i64,
    #[prost(message, optional, tag = "5")]
    pub(crate) network: Option<PodSandboxNetworkStatus>,
    #[prost(btree_map = "string, string", tag = "7")]
    pub(crate) labels: BTreeMap<String, String>,
}

/// The addresses of a sandbox.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandboxNetworkStatus {
    #[prost(string, tag = "1")]
    pub(crate) ip: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) additional_ips: Vec<PodIp>,
}

/// A further address.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodIp {
    #[prost(string, tag = "1")]
    pub(crate) ip: String,
}

/// All sandboxes.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ListPodSandboxResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) items: Vec<PodSandbox>,
}

/// A sandbox in a list.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PodSandbox {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) metadata: Option<PodSandboxMetadata>,
    #[prost(int32, tag = "3")]
    pub(crate) state: i32,
    #[prost(int64, tag = "4")]
    pub(crate) created_at: i64,
    #[prost(btree_map = "string, string", tag = "5")]
    pub(crate) labels: BTreeMap<String, String>,
}
