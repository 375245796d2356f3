//! Resource lists: quantities by resource name, and the sum of the requests or limits of a pod.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use setpoint_api::Quantity;

/// Quantities by resource name (`v1.ResourceList`).
pub type ResourceList = BTreeMap<String, Quantity>;

/// Amounts of resources that can be added and compared, whatever the type of the numbers.
pub trait Amounts: Clone + Default {
    /// Adds other amounts.
    fn add(&mut self, other: &Self);

    /// Raises every amount to at least that of the other.
    fn raise_to(&mut self, least: &Self);
}

/// The amounts of an init container.
#[derive(Debug, Clone)]
pub enum InitContainer<A> {
    /// It ends before the next container starts.
    Sequential(A),
    /// It keeps running beside all later containers (`restartPolicy: Always`).
    Sidecar(A),
}

/// Parses the entries of a list; those that are not quantities are skipped.
pub fn parse<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> ResourceList {
    let parse = |(name, amount): (&str, &str)| Some((name.to_owned(), amount.parse().ok()?));
    entries.into_iter().filter_map(parse).collect()
}

/// Deserializes a list; entries that are not quantities are skipped.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ResourceList, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Amount {
        Text(String),
        Other(IgnoredAny),
    }
    let entries: BTreeMap<String, Amount> = BTreeMap::deserialize(deserializer)?;
    let texts = entries.iter().filter_map(|(name, amount)| match amount {
        Amount::Text(text) => Some((name.as_str(), text.as_str())),
        Amount::Other(_) => None,
    });
    Ok(parse(texts))
}

/// A resource list as messages print it: `cpu=1,memory=1Gi`.
pub fn print(amounts: &ResourceList) -> String {
    let pairs = amounts.iter().map(|(name, amount)| format!("{name}={amount}"));
    pairs.collect::<Vec<_>>().join(",")
}

/// The amounts of all containers of a pod.
///
/// Init containers run one after the other before the others, so the maximum of the largest init container and the sum
/// of the others counts; a sidecar is added to the others and to each later init container.
pub fn sum_of_containers<A: Amounts>(
    containers: impl IntoIterator<Item = A>,
    init_containers: impl IntoIterator<Item = InitContainer<A>>,
) -> A {
    let mut sum = A::default();
    for amounts in containers {
        sum.add(&amounts);
    }
    let (mut sidecars, mut peak) = (A::default(), A::default());
    for container in init_containers {
        match container {
            InitContainer::Sequential(mut amounts) => {
                amounts.add(&sidecars);
                peak.raise_to(&amounts);
            }
            InitContainer::Sidecar(amounts) => {
                sum.add(&amounts);
                sidecars.add(&amounts);
                peak.raise_to(&sidecars);
            }
        }
    }
    sum.raise_to(&peak);
    sum
}

impl Amounts for ResourceList {
    fn add(&mut self, other: &Self) {
        for (name, amount) in other {
            let before = self.get(name).copied();
            let after = before.map_or(*amount, |before| before + *amount);
            self.insert(name.clone(), after);
        }
    }

    fn raise_to(&mut self, least: &Self) {
        for (name, amount) in least {
            if self.get(name).is_none_or(|before| amount > before) {
                self.insert(name.clone(), *amount);
            }
        }
    }
}

// === impl InitContainer ===

impl<A> InitContainer<A> {
    /// An init container with this restart policy.
    pub fn new(restart_policy: &str, amounts: A) -> Self {
        match restart_policy {
            "Always" => Self::Sidecar(amounts),
            _ => Self::Sequential(amounts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(containers: &[&str], init: &[(&str, &str)], expected: &str) {
        let cpu = |amount: &str| parse([("cpu", amount)]);
        let containers = containers.iter().map(|amount| cpu(amount));
        let init = init
            .iter()
            .map(|(amount, policy)| InitContainer::new(policy, cpu(amount)));
        assert_eq!(print(&sum_of_containers(containers, init)), expected);
    }

    #[test]
    fn containers_add_up_and_the_largest_init_container_counts() {
        check(&["1", "500m"], &[], "cpu=1500m");
        check(&["1"], &[("3", ""), ("2", "")], "cpu=3");
        check(&["1"], &[("500m", "")], "cpu=1");
    }

    #[test]
    fn a_sidecar_counts_with_all_later_init_containers() {
        check(&["1"], &[("1", "Always"), ("2", "")], "cpu=3");
        check(&["1"], &[("1", "Always")], "cpu=2");
        check(&["1"], &[("2", ""), ("1", "Always")], "cpu=2");
    }

    #[test]
    fn entries_that_are_not_quantities_are_skipped() {
        assert_eq!(print(&parse([("cpu", "x"), ("memory", "1Gi")])), "memory=1Gi");
    }
}
