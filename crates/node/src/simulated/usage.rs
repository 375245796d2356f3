//! The usage of simulated containers: constant, and the same for the same pod: pure.
//!
//! Since it follows from the pod alone, the metrics of thousands of simulated nodes cost nothing until they are requested.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use setpoint_api::Quantity;

use super::pod_rule::{self, PodRule};
use super::rules::{CPU_USAGE, MEMORY_USAGE, Rules};
use crate::pod::bound_pod::{BoundPod, ContainerIndex, ContainerKind};
use crate::pod::setup::simulated::{container_config, sandbox_config};

/// The usage of a container without a request: next to nothing, since metrics of 0 would be taken for missing ones.
const IDLE: Usage = Usage {
    cpu_nanocores: 1_000_000,
    memory_bytes: 1 << 20,
};

/// What a simulated container uses while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// In billionths of a core.
    pub cpu_nanocores: u64,
    /// The working set.
    pub memory_bytes: u64,
}

impl Usage {
    /// The usage by the rules of the pod, else by the annotations of the container.
    pub(super) fn new(rules: &Rules, container: &BTreeMap<String, String>) -> Self {
        let own = |name: &str| quantity(container.get(name)?);
        Self {
            cpu_nanocores: rules
                .cpu_usage
                .or_else(|| own(CPU_USAGE))
                .map_or(IDLE.cpu_nanocores, nanocores),
            memory_bytes: rules
                .memory_usage
                .or_else(|| own(MEMORY_USAGE))
                .map_or(IDLE.memory_bytes, bytes),
        }
    }
}

/// The running containers of a simulated pod, by their names, with their usage under these rules.
pub fn usage_of_pod(rules: &[PodRule], pod: Pod) -> Vec<(String, Usage)> {
    let pod = BoundPod::new(pod);
    let mut sandbox = sandbox_config(&pod, 0);
    pod_rule::apply(rules, &mut sandbox);
    let rules = Rules::of_pod(&sandbox.annotations, pod.uid());
    let status = pod.status();
    let lists = [
        (ContainerKind::Init, &status.init_container_statuses),
        (ContainerKind::Regular, &status.container_statuses),
    ];
    let mut usages = Vec::new();
    for (kind, statuses) in lists {
        for (index, container) in pod.containers(kind).iter().enumerate() {
            let mut statuses = statuses.iter().flatten();
            let is_running = statuses.any(|status| {
                let state = status.state.as_ref();
                status.name == container.name && state.is_some_and(|state| state.running.is_some())
            });
            if is_running {
                let config = container_config(&pod, ContainerIndex { kind, index }, 0);
                usages.push((config.name, Usage::new(&rules, &config.annotations)));
            }
        }
    }
    usages
}

/// Adds the usage of a container to its annotations: half of what it requests.
pub(crate) fn annotate(container: &Container, annotations: &mut BTreeMap<String, String>) {
    let requests = container.resources.as_ref().and_then(|all| all.requests.as_ref());
    for (resource, annotation) in [("cpu", CPU_USAGE), ("memory", MEMORY_USAGE)] {
        let request = requests.and_then(|requests| quantity(&requests.get(resource)?.0));
        if let Some(request) = request {
            let half = match resource {
                "cpu" => format!("{}n", nanocores(request) / 2),
                _ => (bytes(request) / 2).to_string(),
            };
            annotations.insert(annotation.to_owned(), half);
        }
    }
}

/// A positive quantity.
pub(super) fn quantity(text: &str) -> Option<Quantity> {
    let quantity = text.parse::<Quantity>().ok()?;
    (!quantity.is_zero() && !quantity.is_negative()).then_some(quantity)
}

fn nanocores(quantity: Quantity) -> u64 {
    (quantity.as_approximate_f64() * 1e9) as u64
}

fn bytes(quantity: Quantity) -> u64 {
    u64::try_from(quantity.value()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The usage of the containers of a pod: names, millicores and KiB.
    #[track_caller]
    fn check(rules: Value, metadata: Value, expected: &[(&str, u64, u64)]) {
        let rules: Vec<PodRule> = serde_json::from_value(rules).unwrap();
        let requests = json!({ "requests": { "cpu": "200m", "memory": "1Mi" } });
        let running = |name: &str| {
            json!({ "name": name, "state": { "running": {} }, "image": "", "imageID": "",
            "ready": true, "restartCount": 0 })
        };
        let pod = json!({
            "metadata": metadata,
            "spec": { "containers": [{ "name": "a", "resources": requests }, { "name": "b" }, { "name": "c" }] },
            "status": { "containerStatuses": [running("a"), running("b")] },
        });
        let usages = usage_of_pod(&rules, serde_json::from_value(pod).unwrap());
        let rounded = usages.iter().map(|(name, usage)| {
            (
                name.as_str(),
                usage.cpu_nanocores / 1_000_000,
                usage.memory_bytes >> 10,
            )
        });
        assert_eq!(rounded.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_running_container_uses_half_of_its_requests() {
        check(json!([]), json!({}), &[("a", 100, 512), ("b", 1, 1024)]);
    }

    #[test]
    fn a_rule_sets_the_usage_and_an_annotation_has_precedence() {
        let rules = json!([{ "cpuUsage": "1500m", "memoryUsage": "2Mi" }]);
        check(rules.clone(), json!({}), &[("a", 1500, 2048), ("b", 1500, 2048)]);
        let own = json!({ "annotations": { CPU_USAGE: "3" } });
        check(rules, own, &[("a", 3000, 2048), ("b", 3000, 2048)]);
    }
}
