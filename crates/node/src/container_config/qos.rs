//! Quality of service: which pods are stopped first when memory runs out.

use k8s_openapi::api::core::v1;
use setpoint_api::Quantity;

use super::spec;

/// The class of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QosClass {
    /// Every container has limits that equal its requests.
    Guaranteed,
    /// Some container has a request or a limit.
    Burstable,
    /// No container has any.
    BestEffort,
}

/// The resources that the class depends on.
const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// The class of the pod: that of its status, which the API server set, else that of its spec.
pub fn qos_class(pod: &v1::Pod) -> QosClass {
    match pod.status.as_ref().and_then(|status| status.qos_class.as_deref()) {
        Some("Guaranteed") => QosClass::Guaranteed,
        Some("Burstable") => QosClass::Burstable,
        Some("BestEffort") => QosClass::BestEffort,
        _ => class_of_spec(&spec(pod)),
    }
}

fn class_of_spec(spec: &v1::PodSpec) -> QosClass {
    if let Some(resources) = &spec.resources {
        return class_of([resources].into_iter());
    }
    let empty = v1::ResourceRequirements::default();
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    class_of(containers.map(|container| container.resources.as_ref().unwrap_or(&empty)))
}

fn class_of<'a>(all: impl Iterator<Item = &'a v1::ResourceRequirements> + Clone) -> QosClass {
    let is_set = |one: &v1::ResourceRequirements| {
        RESOURCES
            .iter()
            .any(|name| request(one, name).is_some() || limit(one, name).is_some())
    };
    let is_guaranteed = |one: &v1::ResourceRequirements| {
        RESOURCES.iter().all(|name| {
            let limit = limit(one, name);
            limit.is_some() && request(one, name).or(limit) == limit
        })
    };
    if !all.clone().any(is_set) {
        QosClass::BestEffort
    } else if all.clone().all(is_guaranteed) {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

/// The limit of a resource, unless it is not set or zero.
pub(super) fn limit(resources: &v1::ResourceRequirements, name: &str) -> Option<Quantity> {
    positive(resources.limits.as_ref()?.get(name)?.0.as_str())
}

/// The request of a resource, unless it is not set or zero.
pub(super) fn request(resources: &v1::ResourceRequirements, name: &str) -> Option<Quantity> {
    positive(resources.requests.as_ref()?.get(name)?.0.as_str())
}

fn positive(text: &str) -> Option<Quantity> {
    let quantity: Quantity = text.parse().ok()?;
    (!quantity.is_zero()).then_some(quantity)
}
