//! Amounts of what a node gives and a pod asks for, as whole numbers to add and compare.

use std::collections::BTreeMap;

use compact_str::CompactString;
use serde::Deserialize;
use setpoint_api::Quantity;

/// Amounts by resource. The three that every pod and node has are fields; the rare ones are a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    /// Thousandths of a processor.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes.
    pub ephemeral_storage: i64,
    /// Everything else, sorted by name, no zeros.
    pub others: Vec<(CompactString, i64)>,
}

/// Amounts as objects write them. The number of pods is no amount that a pod asks for, and is read apart.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Written(BTreeMap<CompactString, CompactString>);

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
            _ => self.set_other(name, amount),
        }
    }

    pub fn add(&mut self, more: &Self) {
        self.combine(more, |own, more| own.saturating_add(more));
    }

    pub fn subtract(&mut self, less: &Self) {
        self.combine(less, |own, less| own.saturating_sub(less));
    }

    /// Raises every amount to at least that of the other.
    pub fn raise_to(&mut self, least: &Self) {
        self.combine(least, i64::max);
    }

    /// The names of all resources with an amount.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let fixed = ["cpu", "memory", "ephemeral-storage"].into_iter();
        let given = fixed.filter(|name| self.amount(name) != 0);
        given.chain(self.others.iter().map(|(name, _)| name.as_str()))
    }

    fn combine(&mut self, other: &Self, with: impl Fn(i64, i64) -> i64) {
        self.milli_cpu = with(self.milli_cpu, other.milli_cpu);
        self.memory = with(self.memory, other.memory);
        self.ephemeral_storage = with(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.others {
            let combined = with(self.other(name), *amount);
            self.set_other(name, combined);
        }
    }

    fn other(&self, name: &str) -> i64 {
        let found = self.others.iter().find(|(own, _)| own == name);
        found.map_or(0, |(_, amount)| *amount)
    }

    fn set_other(&mut self, name: &str, amount: i64) {
        match self.others.binary_search_by(|(own, _)| own.as_str().cmp(name)) {
            Ok(at) if amount == 0 => drop(self.others.remove(at)),
            Ok(at) => self.others[at].1 = amount,
            Err(_) if amount == 0 => {}
            Err(at) => self.others.insert(at, (name.into(), amount)),
        }
    }
}

// === impl Written ===

impl Written {
    pub(crate) fn find(&self, name: &str) -> Option<i64> {
        self.0.get(name).map(|quantity| whole(name, quantity))
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

/// A quantity in the unit that its resource is counted in. What is no quantity cannot have been admitted: it is zero.
fn whole(name: &str, quantity: &str) -> i64 {
    let Ok(quantity) = quantity.parse::<Quantity>() else {
        return 0;
    };
    match name {
        "cpu" => quantity.milli_value(),
        _ => quantity.value(),
    }
}
