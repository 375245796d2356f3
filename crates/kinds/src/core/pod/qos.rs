//! The quality of service a pod gets, from what its containers ask for.

use setpoint_api::Quantity;
use setpoint_schema::Tree;

use super::spec::level;

/// The resources that count.
const COUNTED: [&str; 2] = ["cpu", "memory"];

/// What one list of requests and limits amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    BestEffort,
    Burstable,
    Guaranteed,
}

/// `BestEffort` asks for nothing, `Guaranteed` limits everything to what it asks for, the rest is `Burstable`.
pub(super) fn class(spec: &Tree) -> &'static str {
    let class = if level::is_set(spec) {
        Class::of(spec.get("resources"))
    } else {
        let containers = ["initContainers", "containers"]
            .iter()
            .flat_map(|list| spec.items(list));
        Class::together(containers.map(|container| Class::of(container.get("resources"))))
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
        Self::together(COUNTED.iter().map(|name| {
            let (request, limit) = (amount("requests", name), amount("limits", name));
            match request == limit {
                false => Self::Burstable,
                true if request.is_zero() => Self::BestEffort,
                true => Self::Guaranteed,
            }
        }))
    }

    /// Parts that differ make a whole that is neither this nor that.
    fn together(parts: impl Iterator<Item = Self>) -> Self {
        parts
            .reduce(|left, right| if left == right { left } else { Self::Burstable })
            .unwrap_or(Self::BestEffort)
    }
}
