//! Persistent ordered set of records by key: a copy-on-write B+ tree whose nodes are shared between versions.
//!
//! A clone increments one reference count. A change copies the nodes on its path, unless no other version shares
//! them, so the second change of a batch in the same leaf costs no copy. A node that another version can see is
//! never changed.
//!
//! The cost of a change is mostly cache misses: the reference counts of the records in a copied leaf, and the keys
//! it is compared with. So leaves are small, and each node stores a digest of its keys (`keys.rs`) that finds a
//! position without touching the records. Start reading at [`Tree`], then `update.rs` (how nodes change) and
//! `range.rs` (how they are read in order).

mod keys;
mod range;
#[cfg(test)]
mod tests;
mod update;

pub(crate) use range::Range;

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::{Record, tree::keys::Keys};

/// The records of one version, in the order of their keys. All leaves are equally deep.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    root: Node,
    len: usize,
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(Arc<Leaf>),
    Branch(Arc<Branch>),
}

/// Records in key order: fewer than [`WIDTH`] between two changes, possibly none.
#[derive(Clone, Debug, Default)]
struct Leaf {
    /// Digest of the records' keys, at the same positions. Shared by all versions that differ only in values.
    keys: Arc<Keys>,
    records: SmallVec<[Arc<Record>; WIDTH]>,
}

/// Subtrees in key order: at least one and fewer than [`FANOUT`] between two changes.
#[derive(Clone, Debug)]
struct Branch {
    separators: Arc<Separators>,
    children: SmallVec<[Node; FANOUT]>,
}

/// Separators between the children of a branch: the separator at a position is above every key in the child at
/// this position, and not above any key in the next one.
#[derive(Clone, Debug, Default)]
struct Separators {
    keys: Keys,
    full: Vec<Bytes>,
}

/// A node that reaches this many entries is split.
const WIDTH: usize = 16;
const FANOUT: usize = 32;

// === impl Tree ===

impl Tree {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Arc<Record>> {
        let mut node = &self.root;
        loop {
            match node {
                Node::Branch(branch) => node = &branch.children[branch.child(key)],
                Node::Leaf(leaf) => return leaf.search(key).ok().map(|at| &leaf.records[at]),
            }
        }
    }
}

// === impl Node ===

impl Default for Node {
    fn default() -> Node {
        Node::Leaf(Arc::default())
    }
}

// === impl Leaf ===

impl Leaf {
    /// The position of `key`, or where it would be inserted.
    fn search(&self, key: &[u8]) -> Result<usize, usize> {
        self.keys.search(key, |at| &self.records[at].key)
    }
}

// === impl Branch ===

impl Branch {
    /// The child that holds `key`, if the tree does.
    fn child(&self, key: &[u8]) -> usize {
        let Separators { keys, full } = &*self.separators;
        match keys.search(key, |at| &full[at]) {
            Ok(at) => at + 1,
            Err(at) => at,
        }
    }
}
