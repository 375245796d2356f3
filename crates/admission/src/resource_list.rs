//! [`ResourceList`]: quantities by resource name, and the sum of a pod's requests or limits.

use std::collections::BTreeMap;

use setpoint_api::Quantity;
use setpoint_schema::{Map, Tree};

/// Quantities by resource name, sorted by name.
pub(crate) type ResourceList = BTreeMap<String, Quantity>;

/// Parses a resource list; entries that are not quantities are skipped.
pub(crate) fn parse(object: Option<&Tree>) -> ResourceList {
    let entries = object.and_then(Tree::as_map).into_iter().flat_map(Map::iter);
    let amounts =
        entries.filter_map(|(name, amount)| Some((name.to_owned(), amount.as_str()?.parse().ok()?)));
    amounts.collect()
}

/// The `requests` or `limits` of a pod as a whole.
///
/// Init containers run one after the other before the others, so the maximum of the largest init container and the sum
/// of the others counts; a sidecar (`restartPolicy: Always`) is added to the others and to each later init container.
pub(crate) fn of_pod(spec: &Tree, what: &str) -> ResourceList {
    let own = |container: &Tree| parse(container.at(&["resources", what]));
    let mut sum = ResourceList::new();
    for container in spec.items("containers") {
        add(&mut sum, &own(container));
    }
    let (mut staying, mut first) = (ResourceList::new(), ResourceList::new());
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
    sum.extend(parse(spec.at(&["resources", what])));
    sum
}

/// The `requests` or `limits` of a pod, with its overhead.
pub(crate) fn of_pod_with_overhead(spec: &Tree, what: &str) -> ResourceList {
    let mut sum = of_pod(spec, what);
    for (name, amount) in parse(spec.get("overhead")) {
        // A limit that is not set stays unset.
        if what == "requests" || sum.contains_key(&name) {
            let before = sum.get(&name).copied().unwrap_or_default();
            sum.insert(name, before + amount);
        }
    }
    sum
}

pub(crate) fn add(sum: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        let before = sum.get(name).copied();
        let after = before.map_or(*amount, |before| before + *amount);
        sum.insert(name.clone(), after);
    }
}

fn raise(most: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        let before = most.get(name).copied().unwrap_or(*amount);
        most.insert(name.clone(), before.max(*amount));
    }
}

/// A resource list as messages print it: `cpu=1,memory=1Gi`.
pub(crate) fn print(amounts: &ResourceList) -> String {
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
    fn containers_add_up_and_the_largest_init_container_counts() {
        check(&["1", "500m"], &[], "cpu=1500m");
        check(&["1"], &[("3", false), ("2", false)], "cpu=3");
        check(&["1"], &[("500m", false)], "cpu=1");
    }

    #[test]
    fn a_sidecar_counts_with_all_later_init_containers() {
        check(&["1"], &[("1", true), ("2", false)], "cpu=3");
        check(&["1"], &[("1", true)], "cpu=2");
    }
}
