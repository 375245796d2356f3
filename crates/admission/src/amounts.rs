//! Amounts of resources by name, and what a pod asks for in all.

use std::collections::BTreeMap;

use setpoint_api::Quantity;
use setpoint_schema::{Map, Tree};

/// Amounts by name, in the order of the names.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// The amounts that a document says.
pub(crate) fn of(object: Option<&Tree>) -> Amounts {
    let entries = object.and_then(Tree::as_map).into_iter().flat_map(Map::iter);
    let amounts =
        entries.filter_map(|(name, amount)| Some((name.to_owned(), amount.as_str()?.parse().ok()?)));
    amounts.collect()
}

/// What all containers of a pod together ask for (`requests`) or may have (`limits`).
///
/// Init containers run one after the other before the rest, so the largest counts if it asks for more than all the
/// others; those that stay count like the others and with every init container that comes after them.
pub(crate) fn of_pod(spec: &Tree, what: &str) -> Amounts {
    let own = |container: &Tree| of(container.at(&["resources", what]));
    let mut sum = Amounts::new();
    for container in spec.items("containers") {
        add(&mut sum, &own(container));
    }
    let (mut staying, mut first) = (Amounts::new(), Amounts::new());
    for container in spec.items("initContainers") {
        let mut wanted = own(container);
        if container.str_at(&["restartPolicy"]) == Some("Always") {
            add(&mut sum, &wanted);
            add(&mut staying, &wanted);
            wanted.clone_from(&staying);
        } else {
            add(&mut wanted, &staying);
        }
        raise(&mut first, &wanted);
    }
    raise(&mut sum, &first);
    sum.extend(of(spec.at(&["resources", what])));
    sum
}

/// What a pod asks for, with what running it costs.
pub(crate) fn of_pod_with_overhead(spec: &Tree, what: &str) -> Amounts {
    let mut sum = of_pod(spec, what);
    for (name, amount) in of(spec.get("overhead")) {
        // A limit that nobody set stays unset.
        if what == "requests" || sum.contains_key(&name) {
            let before = sum.get(&name).copied().unwrap_or_default();
            sum.insert(name, before + amount);
        }
    }
    sum
}

pub(crate) fn add(sum: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let before = sum.get(name).copied();
        let after = before.map_or(*amount, |before| before + *amount);
        sum.insert(name.clone(), after);
    }
}

fn raise(most: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let before = most.get(name).copied().unwrap_or(*amount);
        most.insert(name.clone(), before.max(*amount));
    }
}

/// Amounts as messages list them: `cpu=1,memory=1Gi`.
pub(crate) fn print(amounts: &Amounts) -> String {
    let pairs = amounts.iter().map(|(name, amount)| format!("{name}={amount}"));
    pairs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(cpu: &str) -> Tree {
        let mut container = Tree::default();
        container.set(&["resources", "requests", "cpu"], cpu);
        container
    }

    #[track_caller]
    fn check(containers: &[&str], init: &[(&str, bool)], expected: &str) {
        let mut spec = Tree::default();
        let containers: Vec<Tree> = containers.iter().map(|cpu| container(cpu)).collect();
        spec.set(&["containers"], containers);
        let init: Vec<Tree> = init
            .iter()
            .map(|(cpu, stays)| {
                let mut container = container(cpu);
                if *stays {
                    container.set(&["restartPolicy"], "Always");
                }
                container
            })
            .collect();
        spec.set(&["initContainers"], init);
        assert_eq!(print(&of_pod(&spec, "requests")), expected);
    }

    #[test]
    fn containers_add_up_and_the_largest_first_one_counts() {
        check(&["1", "500m"], &[], "cpu=1500m");
        check(&["1"], &[("3", false), ("2", false)], "cpu=3");
        check(&["1"], &[("500m", false)], "cpu=1");
    }

    #[test]
    fn those_that_stay_count_with_all_that_come_later() {
        check(&["1"], &[("1", true), ("2", false)], "cpu=3");
        check(&["1"], &[("1", true)], "cpu=2");
    }
}
