//! [`Resources`]: what a node has or a pod requests, as integers to add and compare.

use std::collections::BTreeMap;

use compact_str::CompactString;
use serde::Deserialize;
use setpoint_api::Quantity;
use setpoint_values::resource_list::Amounts;

/// Amounts by resource. The three that every pod and node has are fields; the rare ones are a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    /// Milli-CPUs.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes.
    pub ephemeral_storage: i64,
    /// Everything else, sorted by name, no zeros.
    pub scalar_resources: Vec<(CompactString, i64)>,
}

/// A ResourceList as in the objects. `pods` is not something that a pod requests, and is read separately.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct ResourceList(BTreeMap<CompactString, CompactString>);

// === impl Resources ===

impl Resources {
    /// The amount of one resource by its name.
    pub fn amount(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.milli_cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral_storage,
            _ => self.other(name),
        }
    }

    pub(crate) fn set(&mut self, name: &str, amount: i64) {
        match name {
            "cpu" => self.milli_cpu = amount,
            "memory" => self.memory = amount,
            "ephemeral-storage" => self.ephemeral_storage = amount,
            _ => self.set_scalar(name, amount),
        }
    }

    pub fn subtract(&mut self, less: &Self) {
        self.combine(less, |own, less| own.saturating_sub(less));
    }

    /// The names of all resources with an amount.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let fixed = ["cpu", "memory", "ephemeral-storage"].into_iter();
        let fixed = fixed.filter(|name| self.amount(name) != 0);
        fixed.chain(self.scalar_resources.iter().map(|(name, _)| name.as_str()))
    }

    fn combine(&mut self, other: &Self, with: impl Fn(i64, i64) -> i64) {
        self.milli_cpu = with(self.milli_cpu, other.milli_cpu);
        self.memory = with(self.memory, other.memory);
        self.ephemeral_storage = with(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.scalar_resources {
            let combined = with(self.other(name), *amount);
            self.set_scalar(name, combined);
        }
    }

    fn other(&self, name: &str) -> i64 {
        let found = self.scalar_resources.iter().find(|(own, _)| own == name);
        found.map_or(0, |(_, amount)| *amount)
    }

    fn set_scalar(&mut self, name: &str, amount: i64) {
        match self
            .scalar_resources
            .binary_search_by(|(own, _)| own.as_str().cmp(name))
        {
            Ok(at) if amount == 0 => drop(self.scalar_resources.remove(at)),
            Ok(at) => self.scalar_resources[at].1 = amount,
            Err(_) if amount == 0 => {}
            Err(at) => self.scalar_resources.insert(at, (name.into(), amount)),
        }
    }
}

impl Amounts for Resources {
    fn add(&mut self, other: &Self) {
        self.combine(other, |own, more| own.saturating_add(more));
    }

    fn raise_to(&mut self, least: &Self) {
        self.combine(least, i64::max);
    }
}

// === impl ResourceList ===

impl ResourceList {
    pub(crate) fn find(&self, name: &str) -> Option<i64> {
        self.0.get(name).map(|quantity| whole(name, quantity))
    }

    /// The amounts by name.
    pub(crate) fn amounts(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0
            .iter()
            .map(|(name, quantity)| (name.as_str(), whole(name, quantity)))
    }

    pub(crate) fn to_resources(&self) -> Resources {
        let mut resources = Resources::default();
        for (name, quantity) in self.0.iter().filter(|(name, _)| *name != "pods") {
            resources.set(name, whole(name, quantity));
        }
        resources
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A quantity in the unit that its resource is counted in. An invalid quantity cannot have been admitted: it is zero.
fn whole(name: &str, quantity: &str) -> i64 {
    let Ok(quantity) = quantity.parse::<Quantity>() else {
        return 0;
    };
    match name {
        "cpu" => quantity.milli_value(),
        _ => quantity.value(),
    }
}
