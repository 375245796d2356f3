//! Reading a tree in order, from either end, by reference.

use std::{
    ops::{Bound, RangeBounds},
    sync::Arc,
};

use smallvec::SmallVec;

use crate::{
    Record,
    tree::{Branch, Node, Tree},
};

/// The records of a range, found as it advances.
///
/// `front` is the next record from the left and never stands behind the end of its leaf unless nothing is
/// left in the tree; `back` is just behind the next record from the right. Both walk the same tree, so their
/// places compare.
#[derive(Clone, Debug)]
pub(crate) struct Range<'a> {
    front: Cursor<'a>,
    back: Cursor<'a>,
    /// Both stand in the same leaf.
    together: bool,
}

/// A place between two records.
#[derive(Clone, Debug)]
struct Cursor<'a> {
    /// The branches from the root down, and which child was taken in each.
    path: SmallVec<[(&'a Branch, usize); 6]>,
    leaf: &'a [Arc<Record>],
    at: usize,
}

impl Tree {
    pub(crate) fn iter(&self) -> Range<'_> {
        self.range(&(Bound::<&[u8]>::Unbounded, Bound::<&[u8]>::Unbounded))
    }

    /// The records whose keys lie in the bounds.
    pub(crate) fn range(&self, bounds: &impl RangeBounds<[u8]>) -> Range<'_> {
        let front = match bounds.start_bound() {
            Bound::Unbounded => self.seek(|_| 0, |_| 0),
            Bound::Included(key) => self.seek_key(key, false),
            Bound::Excluded(key) => self.seek_key(key, true),
        };
        let back = match bounds.end_bound() {
            Bound::Unbounded => self.seek(|branch| branch.children.len() - 1, <[_]>::len),
            Bound::Included(key) => self.seek_key(key, true),
            Bound::Excluded(key) => self.seek_key(key, false),
        };
        Range::new(front, back)
    }

    /// The place before `key`, or after it.
    fn seek_key(&self, key: &[u8], after: bool) -> Cursor<'_> {
        let mut path = SmallVec::new();
        let mut node = &self.root;
        loop {
            match node {
                Node::Branch(branch) => node = step(&mut path, branch, branch.child(key)),
                Node::Leaf(leaf) => {
                    let at = match leaf.search(key) {
                        Ok(at) => at + usize::from(after),
                        Err(at) => at,
                    };
                    let leaf = &leaf.records[..];
                    return Cursor { path, leaf, at };
                }
            }
        }
    }

    fn seek(&self, child: impl Fn(&Branch) -> usize, place: impl Fn(&[Arc<Record>]) -> usize) -> Cursor<'_> {
        Cursor::below(SmallVec::new(), &self.root, child, place)
    }
}

// === impl Range ===

impl<'a> Range<'a> {
    fn new(front: Cursor<'a>, back: Cursor<'a>) -> Range<'a> {
        let mut range = Range {
            front,
            back,
            together: false,
        };
        range.settle();
        if !range.front.is_before(&range.back) {
            range.back = range.front.clone();
        }
        range.together = range.front.is_beside(&range.back);
        range
    }

    /// Moves the front over the end of its leaf.
    fn settle(&mut self) {
        while self.front.at == self.front.leaf.len() && self.front.next_leaf() {
            self.together = self.front.is_beside(&self.back);
        }
    }

    fn is_done(&self) -> bool {
        match self.together {
            true => self.front.at >= self.back.at,
            false => !self.front.is_before(&self.back),
        }
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = &'a Arc<Record>;

    fn next(&mut self) -> Option<&'a Arc<Record>> {
        if self.is_done() {
            return None;
        }
        let record = self.front.leaf.get(self.front.at)?;
        self.front.at += 1;
        self.settle();
        Some(record)
    }
}

impl<'a> DoubleEndedIterator for Range<'a> {
    fn next_back(&mut self) -> Option<&'a Arc<Record>> {
        if self.is_done() {
            return None;
        }
        while self.back.at == 0 && self.back.last_leaf() {
            self.together = self.front.is_beside(&self.back);
        }
        self.back.at = self.back.at.checked_sub(1)?;
        self.back.leaf.get(self.back.at)
    }
}

// === impl Cursor ===

impl<'a> Cursor<'a> {
    /// Goes down from `node`, taking in each branch and in the leaf what the two functions say.
    fn below(
        mut path: SmallVec<[(&'a Branch, usize); 6]>,
        mut node: &'a Node,
        child: impl Fn(&Branch) -> usize,
        place: impl Fn(&[Arc<Record>]) -> usize,
    ) -> Cursor<'a> {
        loop {
            match node {
                Node::Branch(branch) => node = step(&mut path, branch, child(branch)),
                Node::Leaf(leaf) => {
                    let leaf = &leaf.records[..];
                    let at = place(leaf);
                    return Cursor { path, leaf, at };
                }
            }
        }
    }

    /// Goes to the start of the next leaf; stays where it is if there is none.
    fn next_leaf(&mut self) -> bool {
        let turn = self
            .path
            .iter()
            .rposition(|(branch, at)| at + 1 < branch.children.len());
        let Some(turn) = turn else { return false };
        let (branch, at) = self.path[turn];
        self.path.truncate(turn);
        let mut path = std::mem::take(&mut self.path);
        let node = step(&mut path, branch, at + 1);
        *self = Cursor::below(path, node, |_| 0, |_| 0);
        true
    }

    /// Goes to the end of the leaf before; stays where it is if there is none.
    fn last_leaf(&mut self) -> bool {
        let Some(turn) = self.path.iter().rposition(|(_, at)| *at > 0) else {
            return false;
        };
        let (branch, at) = self.path[turn];
        self.path.truncate(turn);
        let mut path = std::mem::take(&mut self.path);
        let node = step(&mut path, branch, at - 1);
        *self = Cursor::below(path, node, |branch| branch.children.len() - 1, <[_]>::len);
        true
    }

    fn is_beside(&self, other: &Cursor<'_>) -> bool {
        self.turns().eq(other.turns())
    }

    fn is_before(&self, other: &Cursor<'_>) -> bool {
        let mine = self.turns().chain([self.at]);
        mine.lt(other.turns().chain([other.at]))
    }

    fn turns(&self) -> impl Iterator<Item = usize> {
        self.path.iter().map(|(_, at)| *at)
    }
}

fn step<'a>(path: &mut SmallVec<[(&'a Branch, usize); 6]>, branch: &'a Branch, at: usize) -> &'a Node {
    path.push((branch, at));
    &branch.children[at]
}
