//! The quality of service a pod gets, from what its containers ask for.

use setpoint_api::Quantity;
use setpoint_schema::Tree;

/// The resources that count.
const COUNTED: [&str; 2] = ["cpu", "memory"];

/// `BestEffort` asks for nothing, `Guaranteed` limits everything to what it asks for, the rest is `Burstable`.
pub(super) fn class(spec: &Tree) -> &'static str {
    let asks: Vec<Asks> = match spec.get("resources") {
        Some(resources) => vec![Asks::of(resources)],
        None => ["containers", "initContainers"]
            .iter()
            .flat_map(|list| spec.items(list))
            .map(|container| Asks::of(container.get("resources").unwrap_or(&Tree::Null)))
            .collect(),
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
    fn of(resources: &Tree) -> Self {
        let amount = |part: &str, name: &str| -> Option<Quantity> {
            let amount: Quantity = resources.str_at(&[part, name])?.parse().ok()?;
            Some(amount).filter(|amount| !amount.is_zero())
        };
        Self(COUNTED.map(|name| (amount("requests", name), amount("limits", name))))
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
