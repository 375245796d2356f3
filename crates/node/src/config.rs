//! Configuration of the node agent.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use compact_str::{CompactString, format_compact};

use crate::runtime::{Runtime, SimulatedRuntime};

/// The nodes of an agent and how it runs them.
#[derive(Debug, Clone)]
pub struct Config {
    pub machines: Vec<Machine>,
    pub runtime: Arc<dyn Runtime>,
    /// How often each node renews its Lease.
    pub lease_renew_interval: Duration,
    /// How often each node reports its whole status, even if nothing changed.
    pub status_report_interval: Duration,
    /// How many pods are reconciled at once.
    pub workers: usize,
}

/// The machine behind a Node object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    pub name: CompactString,
    /// Its number among the simulated machines, from which its addresses are derived.
    pub number: u32,
    pub labels: BTreeMap<String, String>,
    /// Its capacity, by resource.
    pub capacity: BTreeMap<String, String>,
}

// === impl Config ===

impl Config {
    /// An agent for this many simulated nodes, named `prefix-0` and so on.
    pub fn simulated(prefix: &str, count: u32) -> Self {
        let machine = |number| Machine::new(&format_compact!("{prefix}-{number}"), number);
        Self {
            machines: (0..count).map(machine).collect(),
            runtime: Arc::new(SimulatedRuntime::default()),
            lease_renew_interval: Duration::from_secs(10),
            status_report_interval: Duration::from_secs(300),
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
