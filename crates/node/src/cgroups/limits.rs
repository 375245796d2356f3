//! [`CgroupLimits`]: what the cgroup of a pod may use, and the kernel's files for it: pure.

use k8s_openapi::api::core::v1;
use setpoint_api::Quantity;
use setpoint_values::resource_list::ResourceList;

use super::hierarchy::Version;
use crate::container_config::pod_resources::{pod_limits, pod_requests};
use crate::container_config::qos::{QosClass, qos_class};
use crate::container_config::{CPU_PERIOD, cpu_quota, cpu_shares, huge_pages};

/// Limits of a cgroup. Those that are absent stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CgroupLimits {
    /// The relative weight of its CPU time.
    pub(super) cpu_shares: Option<i64>,
    /// The CPU time per period, in microseconds; 0 for no limit.
    pub(super) cpu_quota: Option<i64>,
    /// The memory in bytes.
    pub(super) memory: Option<i64>,
    /// Huge pages in bytes, by their size as in `2MB`.
    pub(super) huge_pages: Vec<(String, u64)>,
}

impl CgroupLimits {
    /// The limits of a pod, as the kubelet's `ResourceConfigForPod` has them.
    pub(super) fn of_pod(pod: &v1::Pod) -> Self {
        let (requests, limits) = (pod_requests(pod), pod_limits(pod));
        let class = qos_class(pod);
        if class == QosClass::BestEffort {
            return Self {
                cpu_shares: Some(cpu_shares(0)),
                ..Self::default()
            };
        }
        let is_limited = |name| class == QosClass::Guaranteed || is_limited(pod, name);
        let (cpu, memory) = (milli(&limits, "cpu"), amount(&limits, "memory"));
        Self {
            cpu_shares: Some(cpu_shares(milli(&requests, "cpu"))),
            cpu_quota: is_limited("cpu").then(|| cpu_quota(cpu)),
            memory: is_limited("memory")
                .then_some(memory)
                .filter(|memory| *memory > 0),
            huge_pages: huge_pages(&requests),
        }
    }

    /// The kernel's files of a controller, with their contents.
    pub(super) fn files(&self, version: &Version, controller: &str) -> Vec<(String, String)> {
        let is_v1 = matches!(version, Version::V1(_));
        let mut files = Vec::new();
        let mut add = |name: &str, value: String| files.push((name.to_owned(), value));
        match (controller, is_v1) {
            ("cpu", true) => {
                if let Some(shares) = self.cpu_shares {
                    add("cpu.shares", shares.to_string());
                }
                if let Some(quota) = self.cpu_quota {
                    add("cpu.cfs_period_us", CPU_PERIOD.to_string());
                    add("cpu.cfs_quota_us", unless_zero(quota, "-1"));
                }
            }
            ("cpu", false) => {
                if let Some(shares) = self.cpu_shares {
                    add("cpu.weight", cpu_weight(shares).to_string());
                }
                if let Some(quota) = self.cpu_quota {
                    add("cpu.max", format!("{} {CPU_PERIOD}", unless_zero(quota, "max")));
                }
            }
            ("memory", _) => {
                let name = if is_v1 {
                    "memory.limit_in_bytes"
                } else {
                    "memory.max"
                };
                self.memory
                    .iter()
                    .for_each(|memory| add(name, memory.to_string()));
            }
            ("hugetlb", _) => {
                let suffix = if is_v1 { "limit_in_bytes" } else { "max" };
                for (size, bytes) in &self.huge_pages {
                    add(&format!("hugetlb.{size}.{suffix}"), bytes.to_string());
                }
            }
            _ => {}
        }
        files
    }
}

fn unless_zero(value: i64, otherwise: &str) -> String {
    match value {
        0 => otherwise.to_owned(),
        value => value.to_string(),
    }
}

/// Whether the pod, or each of its containers, has a limit of this resource.
fn is_limited(pod: &v1::Pod, name: &str) -> bool {
    let Some(spec) = &pod.spec else {
        return false;
    };
    let has_limit = |resources: Option<&v1::ResourceRequirements>| {
        let limits = resources.and_then(|resources| resources.limits.as_ref());
        let limit = limits.and_then(|limits| limits.get(name)?.0.parse::<Quantity>().ok());
        limit.is_some_and(|limit| !limit.is_zero())
    };
    let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    has_limit(spec.resources.as_ref()) || containers.all(|container| has_limit(container.resources.as_ref()))
}

pub(super) fn milli(amounts: &ResourceList, name: &str) -> i64 {
    amounts.get(name).map_or(0, |amount| amount.milli_value())
}

fn amount(amounts: &ResourceList, name: &str) -> i64 {
    amounts.get(name).map_or(0, |amount| amount.value())
}

/// The weight of version 2 for shares of version 1: a curve through the least, the default and the greatest values of both.
fn cpu_weight(shares: i64) -> i64 {
    match shares {
        ..=2 => 1,
        262_144.. => 10_000,
        shares => {
            let log = (shares as f64).log2();
            let exponent = (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0;
            10_f64.powf(exponent).ceil() as i64
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The files of a pod with this resources of its containers.
    #[track_caller]
    fn check(containers: Value, version: Version, expected: &[&str]) {
        let containers = containers.as_array().unwrap().iter();
        let containers: Vec<Value> = containers
            .map(|resources| json!({ "name": "c", "resources": resources }))
            .collect();
        let pod = json!({ "metadata": {}, "spec": { "containers": containers } });
        let limits = CgroupLimits::of_pod(&serde_json::from_value(pod).unwrap());
        let files = ["cpu", "memory", "hugetlb"].map(|controller| limits.files(&version, controller));
        let files = files.concat().into_iter();
        let files: Vec<String> = files.map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(files, expected);
    }

    #[test]
    fn a_guaranteed_pod_has_the_sum_of_its_containers() {
        let one = json!({ "limits": { "cpu": "500m", "memory": "64Mi" } });
        let one = json!({ "limits": one["limits"], "requests": one["limits"] });
        let both = json!([one, one]);
        let expected = [
            "cpu.shares=1024",
            "cpu.cfs_period_us=100000",
            "cpu.cfs_quota_us=100000",
            "memory.limit_in_bytes=134217728",
        ];
        check(both.clone(), Version::V1(Vec::new()), &expected);
        let expected = ["cpu.weight=100", "cpu.max=100000 100000", "memory.max=134217728"];
        check(both, Version::V2, &expected);
    }

    #[test]
    fn a_burstable_pod_is_limited_only_if_all_its_containers_are() {
        let limited = json!({ "requests": { "cpu": "250m" }, "limits": { "memory": "64Mi" } });
        let v1 = || Version::V1(Vec::new());
        check(
            json!([limited]),
            v1(),
            &["cpu.shares=256", "memory.limit_in_bytes=67108864"],
        );
        check(json!([limited, {}]), v1(), &["cpu.shares=256"]);
    }

    #[test]
    fn a_pod_without_requests_has_the_least_weight() {
        check(json!([{}]), Version::V1(Vec::new()), &["cpu.shares=2"]);
        check(json!([{}]), Version::V2, &["cpu.weight=1"]);
    }

    #[test]
    fn huge_pages_are_limited_to_the_request() {
        let pages = json!({ "requests": { "hugepages-2Mi": "4Mi", "cpu": "1" }, "limits": { "hugepages-2Mi": "4Mi" } });
        check(
            json!([pages]),
            Version::V2,
            &["cpu.weight=100", "hugetlb.2MB.max=4194304"],
        );
    }
}
