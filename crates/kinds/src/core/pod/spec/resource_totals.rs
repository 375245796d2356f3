//! The total requests or limits of a pod's containers.

use std::collections::BTreeMap;

use setpoint_api::Quantity;
use setpoint_schema::{Tree, fields};

use crate::core::pod::ALWAYS;

/// Quantities by resource name.
pub(super) type Amounts = BTreeMap<String, Quantity>;

/// The total of `requests` or `limits` over all containers. Regular init containers run one after the other, so only
/// the largest counts, together with the sidecars that were started before it.
pub(super) fn of_containers(spec: &Tree, list: &str) -> Amounts {
    let mut sum = Amounts::new();
    for container in spec.items(fields::CONTAINERS) {
        add(&mut sum, &amounts(container, list));
    }
    let (mut helpers, mut peak) = (Amounts::new(), Amounts::new());
    for container in spec.items(fields::INIT_CONTAINERS) {
        let container_amounts = amounts(container, list);
        let mut together = container_amounts.clone();
        if container.str_at(&[fields::RESTART_POLICY]) == Some(ALWAYS) {
            add(&mut sum, &container_amounts);
            add(&mut helpers, &container_amounts);
            together = helpers.clone();
        } else {
            add(&mut together, &helpers);
        }
        raise(&mut peak, &together);
    }
    raise(&mut sum, &peak);
    sum
}

fn amounts(container: &Tree, list: &str) -> Amounts {
    let amounts = container.at(&[fields::RESOURCES, list]).and_then(Tree::as_map);
    let amounts = amounts.into_iter().flat_map(|map| map.iter());
    amounts
        .filter_map(|(name, amount)| Some((name.to_owned(), amount.as_str()?.parse().ok()?)))
        .collect()
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let before = sum.get(name).copied();
        sum.insert(name.clone(), before.map_or(*amount, |before| before + *amount));
    }
}

fn raise(sum: &mut Amounts, min: &Amounts) {
    for (name, amount) in min {
        if sum.get(name).is_none_or(|before| amount > before) {
            sum.insert(name.clone(), *amount);
        }
    }
}
