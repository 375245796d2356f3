//! The use of resources over CRI.

use setpoint_container_runtime::{ContainerId, ContainerStats, ErrorKind, RuntimeFuture, StatsService};

use crate::cri::{Cri, time};
use crate::proto::{Empty, node as proto};

impl StatsService for Cri {
    fn container_stats(&self) -> RuntimeFuture<'_, Vec<ContainerStats>> {
        Box::pin(async move {
            let response: proto::ListContainerStatsResponse = self
                .runtime("ListContainerStats", &Empty {}, ErrorKind::Other)
                .await?;
            Ok(response.stats.into_iter().map(decode).collect())
        })
    }
}

fn decode(stats: proto::ContainerStats) -> ContainerStats {
    let cpu = stats.cpu.unwrap_or_default();
    let memory = stats.memory.unwrap_or_default();
    let layer = stats.writable_layer.unwrap_or_default();
    ContainerStats {
        id: ContainerId(stats.attributes.unwrap_or_default().id),
        sandbox: None,
        time: time(cpu.timestamp.max(memory.timestamp)),
        cpu_nanoseconds: cpu.usage_core_nano_seconds.unwrap_or_default().value,
        working_set_bytes: memory.working_set_bytes.unwrap_or_default().value,
        writable_layer_bytes: layer.used_bytes.unwrap_or_default().value,
    }
}
