//! The quality of service a pod gets, from what its containers ask for.

use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};

use setpoint_api::Quantity;

use crate::shared::resources;

/// The resources that count.
const COUNTED: [&str; 2] = ["cpu", "memory"];

/// `BestEffort` asks for nothing, `Guaranteed` limits everything to what it asks for, the rest is `Burstable`.
pub(super) fn class(spec: &PodSpec) -> &'static str {
    let asks: Vec<Asks> = match &spec.resources {
        Some(resources) => vec![Asks::of(Some(resources))],
        None => {
            let init = spec.init_containers.iter().flatten();
            let containers = spec.containers.iter().chain(init);
            containers
                .map(|container| Asks::of(container.resources.as_ref()))
                .collect()
        }
    };
    if asks.iter().all(|asks| asks.is_nothing()) {
        "BestEffort"
    } else if asks.iter().all(|asks| asks.is_guaranteed()) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// For each resource that counts, the request and the limit; nothing counts as none.
struct Asks([(Option<Quantity>, Option<Quantity>); 2]);

impl Asks {
    fn of(asked: Option<&ResourceRequirements>) -> Self {
        let amount = |amounts: Option<&resources::Amounts>, name: &str| {
            let text = amounts?.get(name)?;
            Some(resources::amount(text)).filter(|amount| !amount.is_zero())
        };
        Self(COUNTED.map(|name| {
            let requests = asked.and_then(|asked| asked.requests.as_ref());
            let limits = asked.and_then(|asked| asked.limits.as_ref());
            (amount(requests, name), amount(limits, name))
        }))
    }

    fn is_nothing(&self) -> bool {
        self.0.iter().all(|pair| *pair == (None, None))
    }

    fn is_guaranteed(&self) -> bool {
        self.0
            .iter()
            .all(|(request, limit)| limit.is_some() && request.is_none_or(|asked| Some(asked) == *limit))
    }
}
