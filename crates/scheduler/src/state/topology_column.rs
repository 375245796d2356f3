//! [`TopologyColumn`]: the domain of each node by one topology key, as a dense number.
//!
//! Filters and scores of affinity and spread look up a domain for every node: with numbers, that is one read of a column
//! instead of a search in the node's labels. A column is built by one pass over the nodes when its key is first used, and
//! follows the labels of the nodes from then on.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use compact_str::CompactString;
use parking_lot::Mutex;

use super::node_properties::NodeProperties;
use super::node_table::{NodeIndex, NodeRef, NodeTable};

/// The number of a value of a topology key. It is used again once no node has the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DomainId(u32);

/// The row of a node without the topology key.
const NO_DOMAIN: u32 = u32::MAX;

/// The domains of one topology key.
#[derive(Debug, Clone, Default)]
pub struct TopologyColumn {
    /// The domain of each node, by row.
    rows: Vec<u32>,
    ids: HashMap<CompactString, DomainId>,
    /// The number of nodes of each domain.
    nodes: Vec<u32>,
    /// Domains without nodes, to use again.
    free: Vec<DomainId>,
    /// The sequence of the cluster state at which the column was built: numbers of another build differ.
    built_at: u64,
}

/// The columns of the topology keys in use.
#[derive(Debug, Default)]
pub(super) struct TopologyColumns {
    by_key: Mutex<HashMap<CompactString, Arc<TopologyColumn>>>,
}

/// The domains that a node left and entered, by topology key.
pub(super) type DomainChanges = HashMap<CompactString, (Option<DomainId>, Option<DomainId>)>;

/// Numbers by the number of a domain or a node.
pub(super) type NumberMap<K> = HashMap<K, i64, BuildHasherDefault<NumberHasher>>;

/// Multiplies small numbers, which need no protection against collisions.
#[derive(Debug, Default)]
pub(super) struct NumberHasher(u64);

// === impl DomainId ===

impl DomainId {
    /// The domain of this number.
    pub fn new(index: usize) -> Self {
        Self(u32::try_from(index).expect("fewer than 2^32 domains"))
    }

    pub fn index(self) -> usize {
        self.0 as usize
    }
}

// === impl TopologyColumn ===

impl TopologyColumn {
    fn build(key: &str, nodes: &NodeTable, sequence: u64) -> Self {
        let mut column = Self {
            built_at: sequence,
            ..Self::default()
        };
        for index in nodes.live() {
            column.set(*index, nodes.node(*index).label(key));
        }
        column
    }

    /// A column of one node alone.
    pub fn of_node(key: &str, node: NodeRef<'_>) -> Self {
        let mut column = Self::default();
        column.set(node.index, node.label(key));
        column
    }

    /// The domain of the node; `None` without the label.
    pub fn domain(&self, node: NodeIndex) -> Option<DomainId> {
        let id = self.rows.get(node.row()).copied().unwrap_or(NO_DOMAIN);
        (id != NO_DOMAIN).then_some(DomainId(id))
    }

    /// The domain of this value.
    pub fn find(&self, value: &str) -> Option<DomainId> {
        self.ids.get(value).copied()
    }

    /// All domains.
    pub fn domains(&self) -> impl Iterator<Item = DomainId> {
        self.ids.values().copied()
    }

    /// The number of nodes in the domain.
    pub fn nodes_in(&self, domain: DomainId) -> u32 {
        self.nodes[domain.index()]
    }

    /// A number above those of all domains.
    pub fn bound(&self) -> usize {
        self.nodes.len()
    }

    /// The sequence of the cluster state at which the column was built.
    pub fn built_at(&self) -> u64 {
        self.built_at
    }

    /// Moves the node to the domain of this value. Returns the domain before and the domain now.
    fn set(&mut self, node: NodeIndex, value: Option<&str>) -> (Option<DomainId>, Option<DomainId>) {
        let old = self.domain(node);
        let new = value.map(|value| self.intern(value));
        if self.rows.len() <= node.row() {
            self.rows.resize(node.row() + 1, NO_DOMAIN);
        }
        self.rows[node.row()] = new.map_or(NO_DOMAIN, |id| id.0);
        if let Some(new) = new {
            self.nodes[new.index()] += 1;
        }
        if let Some(old) = old {
            self.nodes[old.index()] -= 1;
            if self.nodes[old.index()] == 0 {
                self.ids.retain(|_, id| *id != old);
                self.free.push(old);
            }
        }
        (old, new)
    }

    fn intern(&mut self, value: &str) -> DomainId {
        if let Some(id) = self.ids.get(value) {
            return *id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(0);
            DomainId::new(self.nodes.len() - 1)
        });
        self.ids.insert(value.into(), id);
        id
    }
}

// === impl TopologyColumns ===

impl TopologyColumns {
    /// The column of a key, built on first use.
    pub(super) fn column(&self, key: &str, nodes: &NodeTable, sequence: u64) -> Arc<TopologyColumn> {
        let mut columns = self.by_key.lock();
        if let Some(column) = columns.get(key) {
            return column.clone();
        }
        let column = Arc::new(TopologyColumn::build(key, nodes, sequence));
        columns.insert(key.into(), column.clone());
        column
    }

    /// Applies the new labels of a node. Returns the keys by which its domain changed.
    pub(super) fn node_relabeled(&mut self, node: NodeIndex, new: Option<&NodeProperties>) -> DomainChanges {
        let mut changes = DomainChanges::new();
        for (key, column) in self.by_key.get_mut() {
            let value = new.and_then(|new| new.label(key));
            let (old, known) = (column.domain(node), value.and_then(|value| column.find(value)));
            if old != known || value.is_some() != known.is_some() {
                let moved = Arc::make_mut(column).set(node, value);
                changes.insert(key.clone(), moved);
            }
        }
        changes
    }

    /// Drops the columns of keys that no counter uses.
    pub(super) fn retain(&mut self, is_used: impl Fn(&str) -> bool) {
        self.by_key.get_mut().retain(|key, _| is_used(key));
    }
}

// === impl NumberHasher ===

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The domains of the first rows after these labels were set, as `id` or `-`.
    #[track_caller]
    fn check(labels: &[(u32, Option<&str>)], expected: &str) {
        let mut column = TopologyColumn::default();
        for (node, value) in labels {
            column.set(NodeIndex(*node), *value);
        }
        let domains = (0..3).map(|row| {
            let domain = column.domain(NodeIndex(row));
            domain.map_or("-".to_owned(), |id| id.index().to_string())
        });
        assert_eq!(domains.collect::<Vec<_>>().join(" "), expected);
        let nodes: u32 = column.nodes.iter().sum();
        assert_eq!(
            nodes as usize,
            column.rows.iter().filter(|id| **id != NO_DOMAIN).count()
        );
    }

    #[test]
    fn equal_values_are_one_domain_and_its_number_is_used_again() {
        check(&[(0, Some("a")), (1, Some("a")), (2, Some("b"))], "0 0 1");
        check(&[(0, Some("a")), (0, Some("b"))], "1 - -");
        check(&[(0, Some("a")), (0, None), (1, Some("b"))], "- 0 -");
        check(&[(0, Some("a")), (1, Some("a")), (0, None)], "- 0 -");
    }
}
