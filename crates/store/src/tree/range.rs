//! Range iteration over a tree, from either end, by reference.

use std::{
    ops::{Bound, RangeBounds},
    sync::Arc,
    thread,
};

use smallvec::SmallVec;

use crate::{
    Record,
    tree::{Branch, Node, Tree},
};

/// Double-ended iterator over the records of a range.
///
/// `front` is just before the next record from the left, `back` just after the next one from the right. `front` is
/// never after `back`: either moves to another leaf only while they are in different ones.
#[derive(Clone, Debug)]
pub(crate) struct Range<'a> {
    front: Cursor<'a>,
    back: Cursor<'a>,
    /// Both are in the same leaf.
    together: bool,
}

/// Position between two records.
#[derive(Clone, Debug, Default)]
struct Cursor<'a> {
    /// The branches from the root down, and the index of the child taken in each.
    path: SmallVec<[(&'a Branch, usize); 6]>,
    leaf: &'a [Arc<Record>],
    at: usize,
}

impl Tree {
    pub(crate) fn iter(&self) -> Range<'_> {
        Range::new(self.start(), self.end())
    }

    /// The records whose keys lie in the bounds.
    pub(crate) fn range(&self, bounds: &impl RangeBounds<[u8]>) -> Range<'_> {
        let front = match bounds.start_bound() {
            Bound::Unbounded => self.start(),
            Bound::Included(key) => self.before(key),
            Bound::Excluded(key) => self.after(key),
        };
        let back = match bounds.end_bound() {
            Bound::Unbounded => self.end(),
            Bound::Included(key) => self.after(key),
            Bound::Excluded(key) => self.before(key),
        };
        Range::new(front, back)
    }

    /// The position before the first record.
    fn start(&self) -> Cursor<'_> {
        let mut cursor = Cursor::default();
        cursor.descend(&self.root, |_| 0);
        cursor
    }

    /// The position after the last record.
    fn end(&self) -> Cursor<'_> {
        let mut cursor = Cursor::default();
        cursor.descend(&self.root, |branch| branch.children.len() - 1);
        cursor.at = cursor.leaf.len();
        cursor
    }

    /// The position before `key`, whether it exists or not.
    fn before(&self, key: &[u8]) -> Cursor<'_> {
        let mut cursor = Cursor::default();
        cursor.descend(&self.root, |branch| branch.child(key));
        cursor.at = cursor.leaf.partition_point(|record| record.key[..] < *key);
        cursor
    }

    /// The position after `key`, whether it exists or not.
    fn after(&self, key: &[u8]) -> Cursor<'_> {
        let mut cursor = Cursor::default();
        cursor.descend(&self.root, |branch| branch.child(key));
        cursor.at = cursor.leaf.partition_point(|record| record.key[..] <= *key);
        cursor
    }
}

// === impl Range ===

impl<'a> Range<'a> {
    fn new(front: Cursor<'a>, back: Cursor<'a>) -> Range<'a> {
        let back = if front.is_before(&back) {
            back
        } else {
            front.clone()
        };
        Range {
            together: front.is_beside(&back),
            front,
            back,
        }
    }

    fn is_done(&self) -> bool {
        self.together && self.front.at >= self.back.at
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = &'a Arc<Record>;

    fn next(&mut self) -> Option<&'a Arc<Record>> {
        while !self.is_done() {
            if let Some(record) = self.front.leaf.get(self.front.at) {
                self.front.at += 1;
                return Some(record);
            }
            self.front.next_leaf();
            self.together = self.front.is_beside(&self.back);
        }
        None
    }
}

impl<'a> DoubleEndedIterator for Range<'a> {
    fn next_back(&mut self) -> Option<&'a Arc<Record>> {
        while !self.is_done() {
            if let Some(at) = self.back.at.checked_sub(1) {
                self.back.at = at;
                return self.back.leaf.get(at);
            }
            self.back.last_leaf();
            self.together = self.front.is_beside(&self.back);
        }
        None
    }
}

// === impl Cursor ===

impl<'a> Cursor<'a> {
    /// Moves to the start of the next leaf, which exists.
    fn next_leaf(&mut self) {
        let depth = self
            .path
            .iter()
            .rposition(|(branch, at)| at + 1 < branch.children.len());
        let depth = depth.expect("a position before another leaf has a leaf after it");
        self.yield_core(depth);
        let (branch, at) = self.path[depth];
        self.path.truncate(depth);
        let node = self.step(branch, at + 1);
        self.descend(node, |_| 0);
        self.at = 0;
    }

    /// Moves to the end of the previous leaf, which exists.
    fn last_leaf(&mut self) {
        let depth = self.path.iter().rposition(|(_, at)| *at > 0);
        let depth = depth.expect("a position after another leaf has a leaf before it");
        self.yield_core(depth);
        let (branch, at) = self.path[depth];
        self.path.truncate(depth);
        let node = self.step(branch, at - 1);
        self.descend(node, |branch| branch.children.len() - 1);
        self.at = self.leaf.len();
    }

    /// Yields the core whenever an iteration leaves a branch, which is after a few hundred records. A writer that
    /// becomes ready then waits for tens of microseconds and not for the milliseconds of a scheduler time slice.
    fn yield_core(&self, depth: usize) {
        if depth + 1 < self.path.len() {
            thread::yield_now();
        }
    }

    /// Descends to a leaf; `child` returns the index of the child to take in each branch.
    fn descend(&mut self, mut node: &'a Node, child: impl Fn(&Branch) -> usize) {
        loop {
            match node {
                Node::Branch(branch) => node = self.step(branch, child(branch)),
                Node::Leaf(leaf) => {
                    self.leaf = &leaf.records;
                    return;
                }
            }
        }
    }

    fn step(&mut self, branch: &'a Branch, at: usize) -> &'a Node {
        self.path.push((branch, at));
        &branch.children[at]
    }

    fn is_beside(&self, other: &Cursor<'_>) -> bool {
        // The deepest indices differ most often.
        self.child_indices().rev().eq(other.child_indices().rev())
    }

    fn is_before(&self, other: &Cursor<'_>) -> bool {
        let mine = self.child_indices().chain([self.at]);
        mine.lt(other.child_indices().chain([other.at]))
    }

    fn child_indices(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.path.iter().map(|(_, at)| *at)
    }
}
