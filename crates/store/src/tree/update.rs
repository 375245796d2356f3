//! Changing a tree: on the way down nodes are made our own, on the way up they are split or merged.

use std::{mem, sync::Arc};

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

use crate::{
    Record,
    tree::{
        Branch, FANOUT, Leaf, Node, Separators, Tree, WIDTH,
        keys::{Keys, common},
    },
};

/// A new right neighbour of a node that was split, and what separates the two.
type Split = (Bytes, Node);

impl Tree {
    /// Puts what `make` makes of the record under `key`, if there is one, in its place. The made record has
    /// the same key. Returns it and the one it replaces.
    pub(crate) fn put(
        &mut self,
        key: &[u8],
        make: impl FnOnce(Option<&Arc<Record>>) -> Arc<Record>,
    ) -> (Arc<Record>, Option<Arc<Record>>) {
        let mut made = None;
        let make = |old: Option<&Arc<Record>>| made.insert(make(old)).clone();
        let (old, split) = self.root.put(key, make);
        if let Some((separator, right)) = split {
            let left = mem::take(&mut self.root);
            self.root = Node::branch(smallvec![left, right], vec![separator]);
        }
        self.len += usize::from(old.is_none());
        (made.expect("a put makes its record"), old)
    }

    /// Takes out the record under `key`.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Arc<Record>> {
        // An absent key must not cost a copy of the way to its place.
        self.get(key)?;
        let removed = self.root.remove(key);
        while let Node::Branch(branch) = &self.root
            && let [only] = &branch.children[..]
        {
            self.root = only.clone();
        }
        self.len -= 1;
        Some(removed)
    }
}

// === impl Node ===

impl Node {
    fn branch(children: SmallVec<[Node; FANOUT]>, full: Vec<Bytes>) -> Node {
        Node::Branch(Arc::new(Branch {
            separators: Arc::new(Separators::new(full)),
            children,
        }))
    }

    fn len(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.records.len(),
            Node::Branch(branch) => branch.children.len(),
        }
    }

    fn put(
        &mut self,
        key: &[u8],
        make: impl FnOnce(Option<&Arc<Record>>) -> Arc<Record>,
    ) -> (Option<Arc<Record>>, Option<Split>) {
        // One trait object for all levels, so that the recursion is compiled once and not per caller.
        let mut make = Some(make);
        self.put_with(key, &mut |old| make.take().expect("a record is made once")(old))
    }

    fn put_with(
        &mut self,
        key: &[u8],
        make: &mut dyn FnMut(Option<&Arc<Record>>) -> Arc<Record>,
    ) -> (Option<Arc<Record>>, Option<Split>) {
        match self {
            Node::Leaf(leaf) => Arc::make_mut(leaf).put(key, make),
            Node::Branch(branch) => {
                let branch = Arc::make_mut(branch);
                let at = branch.child(key);
                let (old, split) = branch.children[at].put_with(key, make);
                (old, split.and_then(|split| branch.add(at, split)))
            }
        }
    }

    /// Takes out a record that is there.
    fn remove(&mut self, key: &[u8]) -> Arc<Record> {
        match self {
            Node::Leaf(leaf) => Arc::make_mut(leaf).remove(key),
            Node::Branch(branch) => {
                let branch = Arc::make_mut(branch);
                let at = branch.child(key);
                let removed = branch.children[at].remove(key);
                branch.tidy(at);
                removed
            }
        }
    }

    /// Appends the right neighbour's entries.
    fn merge(&mut self, separator: Bytes, right: Node) {
        match (self, right) {
            (Node::Leaf(left), Node::Leaf(right)) => Arc::make_mut(left).merge(&right),
            (Node::Branch(left), Node::Branch(right)) => Arc::make_mut(left).merge(separator, &right),
            _ => unreachable!("all leaves are equally deep"),
        }
    }
}

// === impl Leaf ===

impl Leaf {
    fn put(
        &mut self,
        key: &[u8],
        make: &mut dyn FnMut(Option<&Arc<Record>>) -> Arc<Record>,
    ) -> (Option<Arc<Record>>, Option<Split>) {
        match self.search(key) {
            Ok(at) => {
                let made = make(Some(&self.records[at]));
                (Some(mem::replace(&mut self.records[at], made)), None)
            }
            Err(at) => {
                self.records.insert(at, make(None));
                let records = &self.records;
                Arc::make_mut(&mut self.keys).insert(at, records.len(), |at| &records[at].key);
                (None, (records.len() == WIDTH).then(|| self.split(at)))
            }
        }
    }

    fn remove(&mut self, key: &[u8]) -> Arc<Record> {
        let at = self.search(key).expect("the key was found before");
        Arc::make_mut(&mut self.keys).remove(at);
        self.records.remove(at)
    }

    /// Splits where a run of rising keys leaves full leaves behind, otherwise in the middle.
    fn split(&mut self, inserted: usize) -> Split {
        let at = split_at(inserted, WIDTH);
        let right = Leaf::new(self.records.drain(at..).collect());
        self.keys = Arc::new(Keys::new(at, |at| &self.records[at].key));
        let (low, high) = (&self.records[at - 1].key, &right.records[0].key);
        // The shortest beginning that tells the two sides apart.
        let separator = high.slice(..common(low, high) + 1);
        (separator, Node::Leaf(Arc::new(right)))
    }

    fn merge(&mut self, right: &Leaf) {
        self.records.extend(right.records.iter().cloned());
        self.keys = Arc::new(Keys::new(self.records.len(), |at| &self.records[at].key));
    }

    fn new(records: SmallVec<[Arc<Record>; WIDTH]>) -> Leaf {
        Leaf {
            keys: Arc::new(Keys::new(records.len(), |at| &records[at].key)),
            records,
        }
    }
}

// === impl Branch ===

impl Branch {
    /// Takes in the new right neighbour of a child.
    fn add(&mut self, at: usize, (separator, right): Split) -> Option<Split> {
        Arc::make_mut(&mut self.separators).insert(at, separator);
        self.children.insert(at + 1, right);
        (self.children.len() == FANOUT).then(|| self.split(at + 1))
    }

    fn split(&mut self, inserted: usize) -> Split {
        let at = split_at(inserted, FANOUT);
        let right = self.children.drain(at..).collect();
        let mut full = self.separators.full.clone();
        let right_full = full.split_off(at);
        let separator = full
            .pop()
            .expect("there is a separator before every child but the first");
        self.separators = Arc::new(Separators::new(full));
        (separator, Node::branch(right, right_full))
    }

    /// Merges a child that has become small with a neighbour, if both fit into one node with room to spare.
    fn tidy(&mut self, at: usize) {
        let width = match &self.children[at] {
            Node::Leaf(_) => WIDTH,
            Node::Branch(_) => FANOUT,
        };
        if self.children[at].len() > width / 4 {
            return;
        }
        for left in [at.wrapping_sub(1), at] {
            if let (Some(one), Some(other)) =
                (self.children.get(left), self.children.get(left.wrapping_add(1)))
                && one.len() + other.len() < width * 3 / 4
            {
                return self.merge_children(left);
            }
        }
        if self.children[at].len() == 0 && self.children.len() > 1 {
            // Both neighbours are nearly full, and either takes in nothing at all.
            self.merge_children(at.saturating_sub(1));
        }
    }

    fn merge_children(&mut self, left: usize) {
        let separator = Arc::make_mut(&mut self.separators).remove(left);
        let right = self.children.remove(left + 1);
        self.children[left].merge(separator, right);
    }

    fn merge(&mut self, separator: Bytes, right: &Branch) {
        let mut full = self.separators.full.clone();
        full.push(separator);
        full.extend(right.separators.full.iter().cloned());
        self.separators = Arc::new(Separators::new(full));
        self.children.extend(right.children.iter().cloned());
    }
}

// === impl Separators ===

impl Separators {
    fn new(full: Vec<Bytes>) -> Separators {
        let keys = Keys::new(full.len(), |at| &full[at]);
        Separators { keys, full }
    }

    fn insert(&mut self, at: usize, separator: Bytes) {
        self.full.insert(at, separator);
        let full = &self.full;
        self.keys.insert(at, full.len(), |at| &full[at]);
    }

    fn remove(&mut self, at: usize) -> Bytes {
        self.keys.remove(at);
        self.full.remove(at)
    }
}

/// Where to split a node of `len` entries into which one was just inserted.
fn split_at(inserted: usize, len: usize) -> usize {
    if inserted + 1 == len { len - 1 } else { len / 2 }
}
