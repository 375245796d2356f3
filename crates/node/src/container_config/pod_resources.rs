//! The requests and limits of a whole pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use setpoint_values::resource_list::{InitContainer, ResourceList, parse, sum_of_containers};

use super::spec;

/// Resources that a pod may set for all its containers together.
const POD_LEVEL: [&str; 2] = ["cpu", "memory"];
const HUGE_PAGES: &str = "hugepages-";

type Amounts = Option<BTreeMap<String, ApiQuantity>>;

/// What the pod requests: its own requests, or else those of its containers, and its overhead.
pub(crate) fn pod_requests(pod: &v1::Pod) -> ResourceList {
    let mut requests = sum(pod, |resources| &resources.requests);
    for (name, amount) in list(&spec(pod).overhead) {
        let before = requests.get(&name).copied();
        requests.insert(name, before.map_or(amount, |before| before + amount));
    }
    requests
}

/// The limits of the pod: its own, or else those of its containers, with its overhead where there is a limit.
pub(crate) fn pod_limits(pod: &v1::Pod) -> ResourceList {
    let mut limits = sum(pod, |resources| &resources.limits);
    for (name, amount) in list(&spec(pod).overhead) {
        if let Some(limit) = limits.get_mut(&name).filter(|limit| !limit.is_zero()) {
            *limit = *limit + amount;
        }
    }
    limits
}

fn sum(pod: &v1::Pod, amounts: impl Fn(&v1::ResourceRequirements) -> &Amounts) -> ResourceList {
    let spec = spec(pod);
    let of = |container: &v1::Container| {
        let resources = container.resources.as_ref();
        resources.map_or_else(ResourceList::new, |resources| list(amounts(resources)))
    };
    let init = spec.init_containers.iter().flatten();
    let init = init.map(|one| InitContainer::new(one.restart_policy.as_deref().unwrap_or_default(), of(one)));
    let mut sum = sum_of_containers(spec.containers.iter().map(of), init);
    let own = spec.resources.as_ref().map(|resources| list(amounts(resources)));
    let is_pod_level = |name: &str| POD_LEVEL.contains(&name) || name.starts_with(HUGE_PAGES);
    sum.extend(own.into_iter().flatten().filter(|(name, _)| is_pod_level(name)));
    sum
}

fn list(amounts: &Amounts) -> ResourceList {
    let entries = amounts.iter().flatten();
    parse(entries.map(|(name, amount)| (name.as_str(), amount.0.as_str())))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use setpoint_values::resource_list::print;

    use super::*;

    #[track_caller]
    fn check(spec: Value, requests: &str, limits: &str) {
        let pod: v1::Pod = serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
        assert_eq!(print(&pod_requests(&pod)), requests);
        assert_eq!(print(&pod_limits(&pod)), limits);
    }

    #[test]
    fn the_pods_own_amounts_replace_those_of_its_containers_and_the_overhead_is_added() {
        let container = json!({ "name": "c", "resources": {
            "requests": { "cpu": "1", "memory": "1Gi" }, "limits": { "memory": "2Gi" } } });
        check(
            json!({ "containers": [container, container] }),
            "cpu=2,memory=2Gi",
            "memory=4Gi",
        );
        let own = json!({ "requests": { "cpu": "3" }, "limits": { "cpu": "4" } });
        check(
            json!({ "containers": [container], "resources": own, "overhead": { "memory": "1Gi" } }),
            "cpu=3,memory=2Gi",
            "cpu=4,memory=3Gi",
        );
    }
}
