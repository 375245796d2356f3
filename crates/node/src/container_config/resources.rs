//! Resources of a container in the kernel's units.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use setpoint_api::Quantity;
use setpoint_container_runtime::container::Resources;
use setpoint_values::resource_list::{ResourceList, parse};

use super::qos::{self, QosClass};
use super::{NodeFacts, spec};

/// The period of the CPU quota, in microseconds.
pub(crate) const CPU_PERIOD: i64 = 100_000;
const MIN_CPU_QUOTA: i64 = 1_000;
const SHARES_PER_CPU: i64 = 1024;
const MIN_CPU_SHARES: i64 = 2;
const MAX_CPU_SHARES: i64 = 262_144;

const GUARANTEED_OOM_SCORE: i64 = -997;
const BEST_EFFORT_OOM_SCORE: i64 = 1000;

/// The least priority of pods that the node cannot do without.
const SYSTEM_NODE_CRITICAL: i32 = 2_000_001_000;

/// The resources of a container.
pub fn container_resources(pod: &v1::Pod, container: &v1::Container, node: &NodeFacts) -> Resources {
    let empty = v1::ResourceRequirements::default();
    let own = container.resources.as_ref().unwrap_or(&empty);
    let spec = spec(pod);
    let of_pod = spec.resources.as_ref().unwrap_or(&empty);
    let limit = |name| qos::limit(own, name).or_else(|| qos::limit(of_pod, name));
    let cpu_limit = limit("cpu").map_or(0, Quantity::milli_value);
    let cpu_request = own.requests.as_ref().and_then(|requests| requests.get("cpu"));
    let cpu_request = match cpu_request {
        Some(request) => request.0.parse().map_or(0, Quantity::milli_value),
        None => cpu_limit,
    };
    Resources {
        cpu_shares: cpu_shares(cpu_request),
        cpu_period: CPU_PERIOD,
        cpu_quota: cpu_quota(cpu_limit),
        memory_limit: limit("memory").map_or(0, Quantity::value),
        oom_score_adj: oom_score(pod, container, node.memory_capacity),
        huge_pages: huge_page_limits(own.limits.as_ref().or(of_pod.limits.as_ref())),
        unified: BTreeMap::new(),
    }
}

/// The weight of an amount of CPU.
pub(crate) fn cpu_shares(milli_cpu: i64) -> i64 {
    (milli_cpu.saturating_mul(SHARES_PER_CPU) / 1000).clamp(MIN_CPU_SHARES, MAX_CPU_SHARES)
}

/// The CPU time per period; 0, no limit, for none.
pub(crate) fn cpu_quota(milli_cpu: i64) -> i64 {
    match milli_cpu {
        0 => 0,
        _ => (milli_cpu.saturating_mul(CPU_PERIOD) / 1000).max(MIN_CPU_QUOTA),
    }
}

/// The adjustment of the kernel's choice when memory runs out: a container that requests a tenth of the node's memory and
/// uses more than that is chosen before others.
fn oom_score(pod: &v1::Pod, container: &v1::Container, memory_capacity: i64) -> i64 {
    if spec(pod)
        .priority
        .is_some_and(|priority| priority >= SYSTEM_NODE_CRITICAL)
    {
        return GUARANTEED_OOM_SCORE;
    }
    match qos::qos_class(pod) {
        QosClass::Guaranteed => return GUARANTEED_OOM_SCORE,
        QosClass::BestEffort => return BEST_EFFORT_OOM_SCORE,
        QosClass::Burstable => {}
    }
    let score = |request: i64| 1000 - request.saturating_mul(1000) / memory_capacity.max(1);
    let mut adjustment = score(memory_request(container));
    if container.restart_policy.as_deref() == Some("Always") {
        let least = spec(pod).containers.iter().map(memory_request).min().unwrap_or(0);
        adjustment = adjustment.min(score(least));
    }
    adjustment.clamp(1000 + GUARANTEED_OOM_SCORE, BEST_EFFORT_OOM_SCORE - 1)
}

fn memory_request(container: &v1::Container) -> i64 {
    let resources = container.resources.as_ref();
    let request = resources.and_then(|resources| qos::request(resources, "memory"));
    request.map_or(0, Quantity::value)
}

fn huge_page_limits(limits: Option<&BTreeMap<String, ApiQuantity>>) -> Vec<(String, u64)> {
    let entries = limits.into_iter().flatten();
    huge_pages(&parse(
        entries.map(|(name, amount)| (name.as_str(), amount.0.as_str())),
    ))
}

/// The amounts of huge pages, with page sizes as the kernel names them.
pub(crate) fn huge_pages(amounts: &ResourceList) -> Vec<(String, u64)> {
    let pages = |(name, amount): (&String, &Quantity)| {
        let page: Quantity = name.strip_prefix("hugepages-")?.parse().ok()?;
        Some((page_size(page.value()), u64::try_from(amount.value()).ok()?))
    };
    amounts.iter().filter_map(pages).collect()
}

fn page_size(bytes: i64) -> String {
    match bytes {
        kilobytes if kilobytes < 1 << 20 => format!("{}KB", bytes >> 10),
        megabytes if megabytes < 1 << 30 => format!("{}MB", bytes >> 20),
        _ => format!("{}GB", bytes >> 30),
    }
}
