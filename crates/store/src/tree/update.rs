//! Updates of a tree: shared nodes are copied on the way down, nodes are split or merged on the way up.

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

/// The new right sibling of a split node, and the separator between the two.
type Split = (Bytes, Node);

/// Called with the new record and the old one it replaces.
type OnReplace = fn(&mut Arc<Record>, &Arc<Record>);

/// Result of a put.
struct PutResult {
    new: Arc<Record>,
    old: Option<Arc<Record>>,
    split: Option<Split>,
}

impl Tree {
    /// Builds a tree from records in strictly ascending key order, with full nodes and without a search.
    pub(crate) fn of_sorted(records: Vec<Arc<Record>>) -> Tree {
        let len = records.len();
        let mut level: Vec<Split> = leaves(records);
        while level.len() > 1 {
            level = branches(level);
        }
        let root = level.pop().map(|(_, root)| root).unwrap_or_default();
        Tree { root, len }
    }

    /// Inserts `record` as the next version of its key. Returns it and the record it replaces.
    pub(crate) fn put(&mut self, record: Record) -> (Arc<Record>, Option<Arc<Record>>) {
        let on_replace = |record: &mut Arc<Record>, old: &Arc<Record>| {
            let record = Arc::get_mut(record).expect("the new record is not shared yet");
            record.succeed(old);
        };
        self.put_with(Arc::new(record), on_replace)
    }

    /// Inserts `record` unchanged. Returns the one it replaces.
    pub(crate) fn restore(&mut self, record: Arc<Record>) -> Option<Arc<Record>> {
        self.put_with(record, |_, _| {}).1
    }

    fn put_with(&mut self, record: Arc<Record>, on_replace: OnReplace) -> (Arc<Record>, Option<Arc<Record>>) {
        let PutResult { new, old, split } = self.root.put(record, on_replace);
        if let Some((separator, right)) = split {
            let left = mem::take(&mut self.root);
            self.root = Node::branch(smallvec![left, right], vec![separator]);
        }
        self.len += usize::from(old.is_none());
        (new, old)
    }

    /// Removes the record under `key`.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Arc<Record>> {
        // An absent key must not cost a copy of the nodes on its path.
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

    fn put(&mut self, record: Arc<Record>, on_replace: OnReplace) -> PutResult {
        match self {
            Node::Leaf(leaf) => Arc::make_mut(leaf).put(record, on_replace),
            Node::Branch(branch) => {
                let branch = Arc::make_mut(branch);
                let at = branch.child(&record.key);
                let mut result = branch.children[at].put(record, on_replace);
                result.split = result.split.and_then(|split| branch.add(at, split));
                result
            }
        }
    }

    /// Removes a record that exists.
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

    /// Appends the right sibling's entries.
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
    fn put(&mut self, mut record: Arc<Record>, on_replace: OnReplace) -> PutResult {
        match self.search(&record.key) {
            Ok(at) => {
                on_replace(&mut record, &self.records[at]);
                PutResult {
                    new: record.clone(),
                    old: Some(mem::replace(&mut self.records[at], record)),
                    split: None,
                }
            }
            Err(at) => {
                self.records.insert(at, record.clone());
                let records = &self.records;
                Arc::make_mut(&mut self.keys).insert(at, records.len(), |at| &records[at].key);
                PutResult {
                    new: record,
                    old: None,
                    split: (records.len() == WIDTH).then(|| self.split(at)),
                }
            }
        }
    }

    fn remove(&mut self, key: &[u8]) -> Arc<Record> {
        let at = self.search(key).expect("the key was found before");
        Arc::make_mut(&mut self.keys).remove(at);
        self.records.remove(at)
    }

    /// Splits at the end if the last entry was inserted, so that ascending keys leave full leaves; else in the middle.
    fn split(&mut self, inserted: usize) -> Split {
        let at = split_at(inserted, WIDTH);
        let right = Leaf::new(self.records.drain(at..).collect());
        self.keys = Arc::new(Keys::new(at, |at| &self.records[at].key));
        let separator = separator(&self.records[at - 1].key, &right.records[0].key);
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
    /// Adds the new right sibling of a child.
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

    /// Merges a child that has become small with a sibling, if both fit into one node with space left.
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
            // Both siblings are nearly full, but an empty child fits into either.
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

/// The shortest prefix of `high` that is above `low`.
fn separator(low: &[u8], high: &Bytes) -> Bytes {
    high.slice(..common(low, high) + 1)
}

/// Leaves for sorted records, each with its separator from the previous one; empty for the first.
fn leaves(records: Vec<Arc<Record>>) -> Vec<Split> {
    let mut records = records.into_iter().peekable();
    let mut leaves = Vec::with_capacity(records.len() / (WIDTH - 1) + 1);
    let mut last = None;
    while let Some(first) = records.peek() {
        let before = match &last {
            Some(last) => separator(&Arc::<Record>::as_ref(last).key, &first.key),
            None => Bytes::new(),
        };
        let leaf = Leaf::new(records.by_ref().take(WIDTH - 1).collect());
        last = leaf.records.last().cloned();
        leaves.push((before, Node::Leaf(Arc::new(leaf))));
    }
    leaves
}

/// The next level: each branch holds as many nodes as fit, and has the separator of its first one.
fn branches(level: Vec<Split>) -> Vec<Split> {
    let mut nodes = level.into_iter();
    let mut branches = Vec::with_capacity(nodes.len() / (FANOUT - 1) + 1);
    while let Some((before, first)) = nodes.next() {
        let (full, rest): (Vec<Bytes>, Vec<Node>) = nodes.by_ref().take(FANOUT - 2).unzip();
        let children = [first].into_iter().chain(rest).collect();
        branches.push((before, Node::branch(children, full)));
    }
    branches
}

/// The index at which to split a node of `len` entries, one of which was just inserted at `inserted`.
fn split_at(inserted: usize, len: usize) -> usize {
    if inserted + 1 == len { len - 1 } else { len / 2 }
}
