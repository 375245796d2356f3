//! What the containers of a pod ask for together.

use std::collections::BTreeMap;

use setpoint_api::Quantity;
use setpoint_schema::Tree;

use crate::core::pod::ALWAYS;

/// Amounts by the name of the resource.
pub(super) type Amounts = BTreeMap<String, Quantity>;

/// The sum over all containers of one list of amounts: `requests` or `limits`. Init containers run one after the
/// other, so only the largest counts, beside the helpers that were started before it.
pub(super) fn of_containers(spec: &Tree, list: &str) -> Amounts {
    let mut sum = Amounts::new();
    for container in spec.items("containers") {
        add(&mut sum, &amounts(container, list));
    }
    let (mut helpers, mut peak) = (Amounts::new(), Amounts::new());
    for container in spec.items("initContainers") {
        let own = amounts(container, list);
        let mut together = own.clone();
        if container.str_at(&["restartPolicy"]) == Some(ALWAYS) {
            add(&mut sum, &own);
            add(&mut helpers, &own);
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
    let amounts = container.at(&["resources", list]).and_then(Tree::as_map);
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

fn raise(sum: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        if sum.get(name).is_none_or(|before| amount > before) {
            sum.insert(name.clone(), *amount);
        }
    }
}
