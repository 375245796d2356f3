//! Messages about the runtime and the use of resources.

use super::UInt64Value;
use super::container::ContainerMetadata;

/// Request for the version, with that of the interface.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct VersionRequest {
    #[prost(string, tag = "1")]
    pub(crate) version: String,
}

/// The version of the runtime.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct VersionResponse {
    #[prost(string, tag = "2")]
    pub(crate) runtime_name: String,
    #[prost(string, tag = "3")]
    pub(crate) runtime_version: String,
}

/// The status of the runtime.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<RuntimeStatus>,
}

/// The conditions of the runtime.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RuntimeStatus {
    #[prost(message, repeated, tag = "1")]
    pub(crate) conditions: Vec<RuntimeCondition>,
}

/// A condition of the runtime.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RuntimeCondition {
    #[prost(string, tag = "1")]
    pub(crate) r#type: String,
    #[prost(bool, tag = "2")]
    pub(crate) status: bool,
    #[prost(string, tag = "3")]
    pub(crate) reason: String,
    #[prost(string, tag = "4")]
    pub(crate) message: String,
}

/// The use of a file system.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FilesystemUsage {
    #[prost(message, optional, tag = "2")]
    pub(crate) fs_id: Option<FilesystemIdentifier>,
    #[prost(message, optional, tag = "3")]
    pub(crate) used_bytes: Option<UInt64Value>,
    #[prost(message, optional, tag = "4")]
    pub(crate) inodes_used: Option<UInt64Value>,
}

/// The mount point of a file system.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FilesystemIdentifier {
    #[prost(string, tag = "1")]
    pub(crate) mountpoint: String,
}

/// The use of all containers.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ListContainerStatsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) stats: Vec<ContainerStats>,
}

/// The use of a container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerStats {
    #[prost(message, optional, tag = "1")]
    pub(crate) attributes: Option<ContainerAttributes>,
    #[prost(message, optional, tag = "2")]
    pub(crate) cpu: Option<CpuUsage>,
    #[prost(message, optional, tag = "3")]
    pub(crate) memory: Option<MemoryUsage>,
    #[prost(message, optional, tag = "4")]
    pub(crate) writable_layer: Option<FilesystemUsage>,
}

/// Identity of a measured container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerAttributes {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) metadata: Option<ContainerMetadata>,
}

/// CPU time of a container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CpuUsage {
    #[prost(int64, tag = "1")]
    pub(crate) timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub(crate) usage_core_nano_seconds: Option<UInt64Value>,
}

/// Memory of a container.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MemoryUsage {
    #[prost(int64, tag = "1")]
    pub(crate) timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub(crate) working_set_bytes: Option<UInt64Value>,
}
