//! A persistent ordered set of records by key: a B+ tree whose nodes are shared between versions.
//!
//! A clone costs one count. A change copies the nodes on its way down, unless no other version shares them,
//! so the second change of a batch in the same place costs no copy. It must never change a node that another
//! version can see.
//!
//! What a change costs is mostly memory that is not in a cache: the counts of the records in a copied leaf,
//! and the keys it is compared with. So leaves are small, and each node knows its keys well enough
//! (`keys.rs`) to find a place without touching the records. Start reading at [`Tree`], then `update.rs`
//! (how nodes change) and `range.rs` (how they are read in order).

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

/// Some records, at most one less than [`WIDTH`] between two changes, and sometimes none.
#[derive(Clone, Debug, Default)]
struct Leaf {
    /// Of the records, at the same positions. Shared by all versions that differ only in values.
    keys: Arc<Keys>,
    records: SmallVec<[Arc<Record>; WIDTH]>,
}

/// Some subtrees, at least one and at most one less than [`FANOUT`] between two changes.
#[derive(Clone, Debug)]
struct Branch {
    separators: Arc<Separators>,
    children: SmallVec<[Node; FANOUT]>,
}

/// What lies between the children of a branch: the separator at a position is above every key in the child
/// at this position, and not above any key in the next one.
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
    /// Where `key` is, or where it would be.
    fn search(&self, key: &[u8]) -> Result<usize, usize> {
        self.keys.search(key, |at| &self.records[at].key)
    }
}

// === impl Branch ===

impl Branch {
    /// The child in which `key` is, if it is anywhere.
    fn child(&self, key: &[u8]) -> usize {
        let Separators { keys, full } = &*self.separators;
        match keys.search(key, |at| &full[at]) {
            Ok(at) => at + 1,
            Err(at) => at,
        }
    }
}
