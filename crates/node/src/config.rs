//! What an agent is told when it starts.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use compact_str::{CompactString, format_compact};

use crate::runtime::{Runtime, Simulated};

/// The nodes that an agent stands for and how it looks after them.
#[derive(Debug, Clone)]
pub struct Config {
    pub machines: Vec<Machine>,
    pub runtime: Arc<dyn Runtime>,
    /// How often each node says that it is alive.
    pub renew_every: Duration,
    /// How often each node reports its whole status, even if nothing changed.
    pub report_every: Duration,
    /// How many pods are worked on at once.
    pub workers: usize,
}

/// One machine: what a node is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    pub name: CompactString,
    /// Its number among the simulated ones, from which its addresses follow.
    pub number: u32,
    pub labels: BTreeMap<String, String>,
    /// What it has, by resource.
    pub capacity: BTreeMap<String, String>,
}

// === impl Config ===

impl Config {
    /// An agent for so many simulated nodes, called `prefix-0` and so on.
    pub fn simulated(prefix: &str, count: u32) -> Self {
        let machine = |number| Machine::new(&format_compact!("{prefix}-{number}"), number);
        Self {
            machines: (0..count).map(machine).collect(),
            runtime: Arc::new(Simulated::default()),
            renew_every: Duration::from_secs(10),
            report_every: Duration::from_secs(300),
            workers: 16,
        }
    }
}

// === impl Machine ===

impl Machine {
    /// A machine of ordinary size.
    pub fn new(name: &str, number: u32) -> Self {
        let capacity = [
            ("cpu", "32"),
            ("memory", "256Gi"),
            ("ephemeral-storage", "1Ti"),
            ("pods", "110"),
        ];
        Self {
            name: name.into(),
            number,
            labels: BTreeMap::new(),
            capacity: capacity
                .map(|(name, amount)| (name.to_owned(), amount.to_owned()))
                .into(),
        }
    }

    /// The same machine with another amount of one resource.
    #[must_use]
    pub fn with(mut self, resource: &str, amount: &str) -> Self {
        self.capacity.insert(resource.to_owned(), amount.to_owned());
        self
    }

    /// Its own address, in the lower quarter of 10.0.0.0/8.
    pub fn address(&self) -> Ipv4Addr {
        let (block, host) = (self.number / 250, self.number % 250 + 1);
        let [_, _, high, low] = block.to_be_bytes();
        Ipv4Addr::new(10, high % 64, low, u8::try_from(host).unwrap_or(u8::MAX))
    }

    /// The address of its `host`th pod, in the upper three quarters.
    pub fn pod_address(&self, host: u8) -> Ipv4Addr {
        let [_, _, high, low] = self.number.to_be_bytes();
        Ipv4Addr::new(10, 64 + high % 192, low, host)
    }
}
