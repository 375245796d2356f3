//! [`NodePressure`]: the conditions of a node that runs out of something.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::core::v1;
use parking_lot::Mutex;

use super::ranking::is_critical;
use crate::container_config::qos::{QosClass, qos_class};

/// A condition of a node that runs out of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pressure {
    Memory,
    Disk,
    Pid,
}

/// The conditions that hold now. The eviction manager sets them; node statuses and the admission of pods read them.
#[derive(Debug, Default)]
pub(crate) struct NodePressure(Mutex<BTreeSet<Pressure>>);

/// The taint by which best-effort pods tolerate memory pressure.
const MEMORY_PRESSURE_TAINT: &str = "node.kubernetes.io/memory-pressure";

// === impl NodePressure ===

impl NodePressure {
    pub(super) fn set(&self, pressures: BTreeSet<Pressure>) {
        *self.0.lock() = pressures;
    }

    pub(crate) fn current(&self) -> BTreeSet<Pressure> {
        self.0.lock().clone()
    }

    /// Why a new pod is not started now, in the kubelet's words. Critical pods are; under memory pressure alone so are
    /// pods that request something, or tolerate it.
    pub(crate) fn reject(&self, pod: &v1::Pod) -> Option<String> {
        let pressures = self.current();
        if pressures.is_empty() || is_critical(pod) {
            return None;
        }
        let is_only_memory = pressures.iter().all(|one| *one == Pressure::Memory);
        if is_only_memory && (qos_class(pod) != QosClass::BestEffort || tolerates_memory_pressure(pod)) {
            return None;
        }
        let names: Vec<String> = pressures.iter().map(ToString::to_string).collect();
        Some(format!("The node had condition: [{}]. ", names.join(" ")))
    }
}

impl fmt::Display for Pressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "MemoryPressure",
            Self::Disk => "DiskPressure",
            Self::Pid => "PIDPressure",
        })
    }
}

fn tolerates_memory_pressure(pod: &v1::Pod) -> bool {
    let tolerations = pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    let tolerates = |one: &v1::Toleration| {
        let effect = one.effect.as_deref().unwrap_or_default();
        let key = one.key.as_deref().unwrap_or_default();
        let is_exists = one.operator.as_deref() == Some("Exists");
        let has_value = one.value.as_deref().is_some_and(|value| !value.is_empty());
        let matches_key = key == MEMORY_PRESSURE_TAINT && (is_exists || !has_value);
        matches!(effect, "" | "NoSchedule") && (matches_key || (key.is_empty() && is_exists))
    };
    tolerations.into_iter().any(tolerates)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(pressures: &[Pressure], spec: Value, expected: Option<&str>) {
        let node = NodePressure::default();
        node.set(pressures.iter().copied().collect());
        let mut spec = spec;
        spec["containers"] = json!([{ "name": "c", "resources": spec["resources"] }]);
        spec.as_object_mut().unwrap().remove("resources");
        let pod = serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
        assert_eq!(node.reject(&pod).as_deref(), expected);
    }

    #[test]
    fn pods_that_request_nothing_are_not_started_under_memory_pressure() {
        let rejected = Some("The node had condition: [MemoryPressure]. ");
        check(&[Pressure::Memory], json!({}), rejected);
        check(&[], json!({}), None);
        let request = json!({ "resources": { "requests": { "cpu": "1" } } });
        check(&[Pressure::Memory], request, None);
        let toleration = json!({ "key": MEMORY_PRESSURE_TAINT, "operator": "Exists" });
        check(&[Pressure::Memory], json!({ "tolerations": [toleration] }), None);
    }

    #[test]
    fn only_critical_pods_are_started_under_disk_pressure() {
        let request = json!({ "resources": { "requests": { "cpu": "1" } } });
        let rejected = Some("The node had condition: [MemoryPressure DiskPressure]. ");
        check(&[Pressure::Disk, Pressure::Memory], request, rejected);
        check(&[Pressure::Disk], json!({ "priority": 2_000_000_000 }), None);
    }
}
