//! Readings of the usage of nodes and containers, from which the metrics API (`metrics.k8s.io`) is served without
//! metrics-server.
//!
//! A [`Scraper`] reads `/metrics/resource` of every kubelet in an interval, as metrics-server does, over the connections of
//! `kubectl logs`. [`ResourceMetrics`] stores the last two readings of each node: the usage of CPU is the difference of two
//! cumulative values. Nothing here knows the objects of the metrics API.
//!
//! Start reading at [`Scraper::run`], then `history`.

mod history;
pub mod page;
mod scraper;

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::RwLock;
use setpoint_api::Key;

use history::History;
pub use scraper::Scraper;

/// How often nodes are read: metrics-server's interval in its manifests.
pub const RESOLUTION: Duration = Duration::from_secs(15);

/// What a node or a container used in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The end of the interval.
    pub time: Timestamp,
    /// The length of the interval.
    pub window: Duration,
    /// The average usage of CPU in the interval, in billionths of a core.
    pub cpu_nanocores: u64,
    /// The working set at the end of the interval.
    pub memory_bytes: u64,
}

/// The last two readings of each node.
#[derive(Debug, Default)]
pub struct ResourceMetrics {
    nodes: RwLock<HashMap<String, History>>,
}

impl ResourceMetrics {
    /// The usage of a node; `None` until it was read twice.
    pub fn node(&self, name: &str) -> Option<Usage> {
        self.nodes.read().get(name)?.node()
    }

    /// The usage of the containers of a pod on this node, by their names; `None` until all of them were read twice.
    pub fn pod(&self, node: &str, pod: &Key) -> Option<Vec<(String, Usage)>> {
        self.nodes.read().get(node)?.pod(pod)
    }

    fn add(&self, node: &str, readings: page::MetricsBatch) {
        let mut nodes = self.nodes.write();
        nodes.entry(node.to_owned()).or_default().add(readings);
    }

    fn retain(&self, is_present: impl Fn(&str) -> bool) {
        self.nodes.write().retain(|name, _| is_present(name));
    }
}
