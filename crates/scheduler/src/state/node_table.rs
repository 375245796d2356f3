//! [`NodeTable`]: the nodes as columns, and [`NodeRef`], one row of it.
//!
//! Amounts are dense columns of integers, so that a filter over thousands of nodes reads memory in order. A row keeps its
//! index until the node is gone: plans refer to nodes by index and sequence, and a change of the row changes its sequence.

use std::collections::HashMap;
use std::sync::Arc;

use compact_str::CompactString;

use super::node_properties::NodeProperties;
use crate::pod_info::{HostPort, NonZeroRequests, PodInfo};
use crate::resources::Resources;

/// The index of a node in the cluster state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIndex(pub u32);

/// The columns. All have the same length.
#[derive(Debug, Default)]
pub struct NodeTable {
    names: Vec<CompactString>,
    properties: Vec<Option<Arc<NodeProperties>>>,
    /// The number of the last change of each row.
    sequences: Vec<u64>,
    allocatable: ResourceColumns,
    requested: ResourceColumns,
    non_zero_milli_cpu: Vec<i64>,
    non_zero_memory: Vec<i64>,
    max_pods: Vec<i64>,
    /// The pods on each node.
    pods: Vec<Vec<Arc<PodInfo>>>,
    /// The host ports in use on each node, with duplicates.
    ports: Vec<Vec<HostPort>>,
    indexes: HashMap<CompactString, NodeIndex>,
    /// The rows with a Node object, in no order.
    live: Vec<NodeIndex>,
    /// Rows to use again.
    free: Vec<NodeIndex>,
}

/// Amounts of resources by row.
#[derive(Debug, Default)]
struct ResourceColumns {
    milli_cpu: Vec<i64>,
    memory: Vec<i64>,
    ephemeral_storage: Vec<i64>,
    /// Everything else: few nodes have any.
    scalar: Vec<Vec<(CompactString, i64)>>,
}

/// A node: one row of a table, which may be a copy with pods added or removed.
#[derive(Debug, Clone, Copy)]
pub struct NodeRef<'a> {
    table: &'a NodeTable,
    row: usize,
    /// Its index in the cluster state, also if the row is a copy.
    pub index: NodeIndex,
}

/// A copy of one node, to try what would fit with other pods on it.
#[derive(Debug)]
pub struct NodeCopy {
    table: NodeTable,
    index: NodeIndex,
}

// === impl NodeIndex ===

impl NodeIndex {
    pub fn row(self) -> usize {
        self.0 as usize
    }
}

// === impl NodeTable ===

impl NodeTable {
    /// The nodes that have a Node object, in no order.
    pub fn live(&self) -> &[NodeIndex] {
        &self.live
    }

    pub fn node(&self, index: NodeIndex) -> NodeRef<'_> {
        NodeRef {
            table: self,
            row: index.row(),
            index,
        }
    }

    pub fn find(&self, name: &str) -> Option<NodeIndex> {
        self.indexes.get(name).copied()
    }

    /// The number of the last change of the row.
    pub fn sequence(&self, index: NodeIndex) -> u64 {
        self.sequences[index.row()]
    }

    /// All rows with their names; free rows have none.
    #[cfg(test)]
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, NodeIndex)> {
        let names = self.names.iter().zip(0..);
        names.map(|(name, index)| (name.as_str(), NodeIndex(index)))
    }

    /// The row of that name, added if there is none.
    pub(super) fn row_of(&mut self, name: &str) -> NodeIndex {
        if let Some(index) = self.find(name) {
            return index;
        }
        let index = self.free.pop().unwrap_or_else(|| self.push_row());
        self.names[index.row()] = name.into();
        self.indexes.insert(name.into(), index);
        index
    }

    /// Sets or removes the Node object of a row.
    pub(super) fn set_properties(
        &mut self,
        index: NodeIndex,
        properties: Option<Arc<NodeProperties>>,
        sequence: u64,
    ) {
        let row = index.row();
        match (self.properties[row].is_some(), properties.is_some()) {
            (false, true) => self.live.push(index),
            (true, false) => self.live.retain(|live| *live != index),
            _ => {}
        }
        let none = Resources::default();
        let allocatable = properties.as_ref().map_or(&none, |node| &node.allocatable);
        self.allocatable.set(row, allocatable);
        self.max_pods[row] = properties.as_ref().map_or(0, |node| node.max_pods);
        self.properties[row] = properties;
        self.sequences[row] = sequence;
    }

    /// Gives the row a new sequence.
    pub(super) fn touch(&mut self, index: NodeIndex, sequence: u64) {
        self.sequences[index.row()] = sequence;
    }

    /// The number of rows, free ones included.
    pub fn rows(&self) -> usize {
        self.names.len()
    }

    pub(super) fn add_pod(&mut self, index: NodeIndex, pod: Arc<PodInfo>, sequence: u64) {
        let row = index.row();
        self.requested.add(row, &pod.spec.requests, 1);
        self.non_zero_milli_cpu[row] += pod.spec.non_zero_requests.milli_cpu;
        self.non_zero_memory[row] += pod.spec.non_zero_requests.memory;
        self.ports[row].extend(pod.spec.host_ports.iter().cloned());
        self.pods[row].push(pod);
        self.sequences[row] = sequence;
    }

    pub(super) fn remove_pod(&mut self, index: NodeIndex, pod: &PodInfo, sequence: u64) {
        let row = index.row();
        let Some(at) = self.pods[row].iter().position(|own| own.key == pod.key) else {
            return;
        };
        let pod = self.pods[row].swap_remove(at);
        self.requested.add(row, &pod.spec.requests, -1);
        self.non_zero_milli_cpu[row] -= pod.spec.non_zero_requests.milli_cpu;
        self.non_zero_memory[row] -= pod.spec.non_zero_requests.memory;
        for port in &pod.spec.host_ports {
            if let Some(at) = self.ports[row].iter().position(|used| used == port) {
                self.ports[row].swap_remove(at);
            }
        }
        self.sequences[row] = sequence;
    }

    /// Frees a row that has neither a Node object nor pods.
    pub(super) fn remove_unused(&mut self, index: NodeIndex, sequence: u64) {
        let row = index.row();
        if self.properties[row].is_some() || !self.pods[row].is_empty() {
            return;
        }
        self.indexes.remove(&self.names[row]);
        self.names[row] = CompactString::default();
        self.requested.set(row, &Resources::default());
        self.sequences[row] = sequence;
        self.free.push(index);
    }

    fn push_row(&mut self) -> NodeIndex {
        let index = NodeIndex(u32::try_from(self.names.len()).expect("fewer than 2^32 nodes"));
        self.names.push(CompactString::default());
        self.properties.push(None);
        self.sequences.push(0);
        self.allocatable.push();
        self.requested.push();
        self.non_zero_milli_cpu.push(0);
        self.non_zero_memory.push(0);
        self.max_pods.push(0);
        self.pods.push(Vec::new());
        self.ports.push(Vec::new());
        index
    }
}

// === impl ResourceColumns ===

impl ResourceColumns {
    fn push(&mut self) {
        self.milli_cpu.push(0);
        self.memory.push(0);
        self.ephemeral_storage.push(0);
        self.scalar.push(Vec::new());
    }

    fn set(&mut self, row: usize, amounts: &Resources) {
        self.milli_cpu[row] = amounts.milli_cpu;
        self.memory[row] = amounts.memory;
        self.ephemeral_storage[row] = amounts.ephemeral_storage;
        self.scalar[row].clone_from(&amounts.scalar_resources);
    }

    /// Adds the amounts `times` times.
    fn add(&mut self, row: usize, amounts: &Resources, times: i64) {
        self.milli_cpu[row] += amounts.milli_cpu * times;
        self.memory[row] += amounts.memory * times;
        self.ephemeral_storage[row] += amounts.ephemeral_storage * times;
        for (name, amount) in &amounts.scalar_resources {
            let own = &mut self.scalar[row];
            match own.iter_mut().find(|(own, _)| own == name) {
                Some((_, sum)) => *sum += amount * times,
                None => own.push((name.clone(), amount * times)),
            }
        }
    }

    fn amount(&self, row: usize, name: &str) -> i64 {
        match name {
            "cpu" => self.milli_cpu[row],
            "memory" => self.memory[row],
            "ephemeral-storage" => self.ephemeral_storage[row],
            _ => self.scalar[row]
                .iter()
                .find(|(own, _)| own == name)
                .map_or(0, |(_, amount)| *amount),
        }
    }
}

// === impl NodeRef ===

impl<'a> NodeRef<'a> {
    pub fn name(self) -> &'a str {
        &self.table.names[self.row]
    }

    /// The Node object; `None` while only pods refer to the node. Nothing is scheduled there.
    pub fn find_properties(self) -> Option<&'a Arc<NodeProperties>> {
        self.table.properties[self.row].as_ref()
    }

    /// The Node object. Plugins are called only for nodes that have one.
    pub fn properties(self) -> &'a NodeProperties {
        self.find_properties().expect("a live node has its object")
    }

    /// The value of a label of the Node object.
    pub fn label(self, name: &str) -> Option<&'a str> {
        self.find_properties()?.label(name)
    }

    pub fn sequence(self) -> u64 {
        self.table.sequences[self.row]
    }

    /// Allocatable milli-CPUs, bytes or units of a resource.
    pub fn allocatable(self, resource: &str) -> i64 {
        self.table.allocatable.amount(self.row, resource)
    }

    /// The sum of the requests of its pods.
    pub fn requested(self, resource: &str) -> i64 {
        self.table.requested.amount(self.row, resource)
    }

    /// What is left of milli-CPUs, memory and ephemeral storage: less than zero on an over-committed node.
    pub fn free(self) -> (i64, i64, i64) {
        let (all, used) = (&self.table.allocatable, &self.table.requested);
        (
            all.milli_cpu[self.row] - used.milli_cpu[self.row],
            all.memory[self.row] - used.memory[self.row],
            all.ephemeral_storage[self.row] - used.ephemeral_storage[self.row],
        )
    }

    /// The sum of the requests of its pods with defaults, for scoring.
    pub fn non_zero_requested(self) -> NonZeroRequests {
        NonZeroRequests {
            milli_cpu: self.table.non_zero_milli_cpu[self.row],
            memory: self.table.non_zero_memory[self.row],
        }
    }

    /// The number of pods that the node can run.
    pub fn max_pods(self) -> i64 {
        self.table.max_pods[self.row]
    }

    /// The pods on the node, in no order.
    pub fn pods(self) -> &'a [Arc<PodInfo>] {
        &self.table.pods[self.row]
    }

    /// The host ports in use.
    pub fn host_ports(self) -> &'a [HostPort] {
        &self.table.ports[self.row]
    }

    /// A copy to change.
    pub fn to_copy(self) -> NodeCopy {
        let mut table = NodeTable::default();
        let index = table.row_of(self.name());
        table.set_properties(index, self.find_properties().cloned(), self.sequence());
        for pod in self.pods() {
            table.add_pod(index, pod.clone(), self.sequence());
        }
        NodeCopy {
            table,
            index: self.index,
        }
    }
}

// === impl NodeCopy ===

impl NodeCopy {
    pub fn node(&self) -> NodeRef<'_> {
        NodeRef {
            table: &self.table,
            row: 0,
            index: self.index,
        }
    }

    pub fn add_pod(&mut self, pod: Arc<PodInfo>) {
        self.table.add_pod(NodeIndex(0), pod, 0);
    }

    pub fn remove_pod(&mut self, pod: &PodInfo) {
        self.table.remove_pod(NodeIndex(0), pod, 0);
    }
}
