//! The QoS class of a pod, from the requests and limits of its containers.

use setpoint_api::Quantity;
use setpoint_schema::{Tree, fields};

use super::spec::pod_resources;

/// The resources that determine the class.
const QOS_RESOURCES: [&str; 2] = ["cpu", "memory"];

/// The class of one container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    BestEffort,
    Burstable,
    Guaranteed,
}

/// `BestEffort` has no requests, `Guaranteed` limits everything to its requests, the rest is `Burstable`.
pub(super) fn class(spec: &Tree) -> &'static str {
    let class = if pod_resources::is_set(spec) {
        Class::of(spec.get(fields::RESOURCES))
    } else {
        let containers = [fields::INIT_CONTAINERS, fields::CONTAINERS]
            .iter()
            .flat_map(|list| spec.items(list));
        Class::combine(containers.map(|container| Class::of(container.get(fields::RESOURCES))))
    };
    match class {
        Class::BestEffort => "BestEffort",
        Class::Burstable => "Burstable",
        Class::Guaranteed => "Guaranteed",
    }
}

impl Class {
    fn of(resources: Option<&Tree>) -> Self {
        let amount = |list: &str, name: &str| -> Quantity {
            let text = resources.and_then(|resources| resources.str_at(&[list, name]));
            text.and_then(|text| text.parse().ok()).unwrap_or_default()
        };
        Self::combine(QOS_RESOURCES.iter().map(|name| {
            let (request, limit) = (amount(fields::REQUESTS, name), amount(fields::LIMITS, name));
            match request == limit {
                false => Self::Burstable,
                true if request.is_zero() => Self::BestEffort,
                true => Self::Guaranteed,
            }
        }))
    }

    /// The class of a pod whose containers have different classes is `Burstable`.
    fn combine(parts: impl Iterator<Item = Self>) -> Self {
        parts
            .reduce(|left, right| if left == right { left } else { Self::Burstable })
            .unwrap_or(Self::BestEffort)
    }
}
