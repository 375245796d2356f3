//! The resource requests of a pod.

use setpoint_values::resource_list::{self, Amounts, InitContainer};

use super::raw::{RawContainer, RawPod};
use super::spec::{ContainerRequests, NonZeroRequests};
use crate::resources::Resources;

/// The request of a container without one, for scoring (upstream: `DefaultMilliCPURequest`, `DefaultMemoryRequest`).
pub(super) const DEFAULT_MILLI_CPU_REQUEST: i64 = 100;
pub(super) const DEFAULT_MEMORY_REQUEST: i64 = 200 * 1024 * 1024;

/// The requests of a pod: those of its containers and its overhead. Pod-level requests take precedence over the sum for
/// the resources that they may have.
pub(super) fn pod_requests(pod: &RawPod) -> (Resources, NonZeroRequests) {
    let requests = sum(pod, &|container| container_requests(pod, container));
    let has_pod_level = !pod.spec.resources.requests.is_empty();
    let with_defaults = sum(pod, &|container| {
        let mut own = container_requests(pod, container);
        let needs = |amount: i64, total: i64| amount == 0 && (!has_pod_level || total == 0);
        if needs(own.milli_cpu, requests.milli_cpu) && container.resources.requests.find("cpu").is_none() {
            own.milli_cpu = DEFAULT_MILLI_CPU_REQUEST;
        }
        if needs(own.memory, requests.memory) && container.resources.requests.find("memory").is_none() {
            own.memory = DEFAULT_MEMORY_REQUEST;
        }
        own
    });
    let non_zero = NonZeroRequests {
        milli_cpu: with_defaults.milli_cpu,
        memory: with_defaults.memory,
    };
    (requests, non_zero)
}

fn sum(pod: &RawPod, requests: &dyn Fn(&RawContainer) -> Resources) -> Resources {
    let init = |container: &RawContainer| InitContainer::new(&container.restart_policy, requests(container));
    let mut sum = resource_list::sum_of_containers(
        pod.spec.containers.iter().map(requests),
        pod.spec.init_containers.iter().map(init),
    );
    for (name, amount) in pod.spec.resources.requests.amounts() {
        if matches!(name, "cpu" | "memory") || name.starts_with("hugepages-") {
            sum.set(name, amount);
        }
    }
    sum.add(&pod.spec.overhead.to_resources());
    sum
}

/// The requests of all containers, if the pod requests a resource with a domain.
pub(super) fn containers_with_extended_resources(
    pod: &RawPod,
    requests: &Resources,
) -> Vec<ContainerRequests> {
    let mut resources = requests.scalar_resources.iter();
    if !resources.any(|(name, _)| name.contains('/')) {
        return Vec::new();
    }
    let of_container = |container: &RawContainer, ends_before_others| ContainerRequests {
        name: container.name.clone(),
        ends_before_others,
        requests: container
            .resources
            .requests
            .amounts()
            .map(|(name, amount)| (name.into(), amount))
            .collect(),
    };
    let init = pod.spec.init_containers.iter();
    let init = init.map(|container| of_container(container, container.restart_policy != "Always"));
    let containers = pod.spec.containers.iter();
    init.chain(containers.map(|container| of_container(container, false)))
        .collect()
}

/// Whether the status of a container reports other requests than its spec.
pub(super) fn is_resizing(pod: &RawPod) -> bool {
    let mut containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
    containers
        .any(|container| container_requests(pod, container) != container.resources.requests.to_resources())
}

/// The requests of a container: while a resize is pending, the larger of the new and the allocated ones.
fn container_requests(pod: &RawPod, container: &RawContainer) -> Resources {
    let mut requests = container.resources.requests.to_resources();
    let statuses = pod.status.container_statuses.iter();
    let mut statuses = statuses.chain(&pod.status.init_container_statuses);
    if let Some(status) = statuses.find(|status| status.name == container.name) {
        requests.raise_to(&status.resources.requests.to_resources());
        requests.raise_to(&status.allocated_resources.to_resources());
    }
    requests
}
