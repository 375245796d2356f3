//! The use of resources by containers.

use jiff::Timestamp;

use crate::RuntimeFuture;
use crate::container::ContainerId;
use crate::sandbox::SandboxId;

/// Measures containers.
pub trait StatsService {
    /// The use of all running containers.
    fn container_stats(&self) -> RuntimeFuture<'_, Vec<ContainerStats>>;
}

/// The use of resources by a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerStats {
    /// The container.
    pub id: ContainerId,
    /// Its sandbox, if the runtime reports it.
    pub sandbox: Option<SandboxId>,
    /// When it was measured.
    pub time: Timestamp,
    /// CPU time since it was started, in nanoseconds.
    pub cpu_nanoseconds: u64,
    /// Memory in use that cannot be freed, in bytes.
    pub working_set_bytes: u64,
    /// Bytes in the writable layer.
    pub writable_layer_bytes: u64,
}
