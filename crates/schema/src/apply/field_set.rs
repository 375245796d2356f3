//! A set of paths into a document: what somebody owns.
//!
//! It is a tree of steps, each with a flag that says whether the path up to it is in the set itself. So `.spec` may be
//! in the set without `.spec.replicas`, the other way round, or both.

use super::element::Element;

/// A set of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Sorted by element; no node is empty.
    nodes: Vec<(Element, Node)>,
}

/// What a set holds at one path and below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The path itself is in the set.
    pub member: bool,
    /// What is in the set below the path.
    pub children: FieldSet,
}

impl FieldSet {
    /// The set of some paths of fields, such as `[["status"], ["metadata", "labels"]]`.
    pub fn of_fields<'a>(paths: impl IntoIterator<Item = &'a [&'a str]>) -> Self {
        let mut set = FieldSet::default();
        for path in paths {
            let node = path
                .iter()
                .rev()
                .fold(Node::leaf(), |node, name| Node::above(Element::field(name), node));
            set = set.union(&node.children);
        }
        set
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Each step at the top with what is below it, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Element, &Node)> {
        self.nodes.iter().map(|(element, node)| (element, node))
    }

    /// What the set holds at a step and below it.
    pub fn at(&self, element: &Element) -> Option<&Node> {
        let found = self.nodes.binary_search_by(|(known, _)| known.cmp(element));
        found.ok().map(|at| &self.nodes[at].1)
    }

    /// The paths of either set.
    pub fn union(&self, other: &FieldSet) -> FieldSet {
        self.zip(other, |left, right| match (left, right) {
            (Some(left), Some(right)) => Node {
                member: left.member || right.member,
                children: left.children.union(&right.children),
            },
            (left, right) => left.or(right).cloned().unwrap_or_default(),
        })
    }

    /// The paths of both sets.
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        self.zip(other, |left, right| match (left, right) {
            (Some(left), Some(right)) => Node {
                member: left.member && right.member,
                children: left.children.intersection(&right.children),
            },
            _ => Node::default(),
        })
    }

    /// The paths of this set that are not in the other.
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        self.zip(other, |left, right| match (left, right) {
            (Some(left), Some(right)) => Node {
                member: left.member && !right.member,
                children: left.children.difference(&right.children),
            },
            (left, _) => left.cloned().unwrap_or_default(),
        })
    }

    /// The paths of this set that are neither in the other nor below a path of the other.
    pub fn outside(&self, other: &FieldSet) -> FieldSet {
        self.zip(other, |left, right| match (left, right) {
            (Some(_), Some(right)) if right.member => Node::default(),
            (Some(left), Some(right)) => Node {
                member: left.member,
                children: left.children.outside(&right.children),
            },
            (left, _) => left.cloned().unwrap_or_default(),
        })
    }

    /// Whether any path is in both sets.
    pub fn meets(&self, other: &FieldSet) -> bool {
        self.iter().any(|(element, node)| {
            let other = other.at(element);
            other.is_some_and(|other| node.member && other.member || node.children.meets(&other.children))
        })
    }

    /// The text of every path, those of one level before those below it.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    /// Adds a step with what is below it; an empty node is left out. [`FieldSet::sort`] follows once all are in.
    pub(super) fn push(&mut self, element: Element, node: Node) {
        if !node.is_empty() {
            self.nodes.push((element, node));
        }
    }

    /// Brings the pushed steps into order.
    pub(super) fn sort(&mut self) {
        self.nodes.sort_by(|left, right| left.0.cmp(&right.0));
    }

    fn collect(&self, prefix: &str, paths: &mut Vec<String>) {
        let members = self.iter().filter(|(_, node)| node.member);
        paths.extend(members.map(|(element, _)| format!("{prefix}{element}")));
        for (element, node) in self.iter() {
            node.children.collect(&format!("{prefix}{element}"), paths);
        }
    }

    /// Walks both sets in order and keeps what the function makes of each step.
    fn zip(&self, other: &FieldSet, join: impl Fn(Option<&Node>, Option<&Node>) -> Node) -> FieldSet {
        let (mut left, mut right) = (self.nodes.iter().peekable(), other.nodes.iter().peekable());
        let mut set = FieldSet::default();
        loop {
            let order = match (left.peek(), right.peek()) {
                (None, None) => return set,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(left), Some(right)) => left.0.cmp(&right.0),
            };
            let left = if order.is_le() { left.next() } else { None };
            let right = if order.is_ge() { right.next() } else { None };
            let (element, _) = left.or(right).expect("one of both sets has a step left");
            set.push(
                element.clone(),
                join(left.map(|pair| &pair.1), right.map(|pair| &pair.1)),
            );
        }
    }
}

// === impl Node ===

impl Node {
    /// The path itself and nothing below.
    pub(super) fn leaf() -> Self {
        Node {
            member: true,
            children: FieldSet::default(),
        }
    }

    /// Something below, but not the path itself.
    pub(super) fn of(mut children: FieldSet) -> Self {
        children.sort();
        Node {
            member: false,
            children,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    fn above(element: Element, node: Node) -> Self {
        let mut children = FieldSet::default();
        children.push(element, node);
        Node::of(children)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(paths: &[&str]) -> FieldSet {
        let paths: Vec<Vec<&str>> = paths.iter().map(|path| path.split('.').collect()).collect();
        FieldSet::of_fields(paths.iter().map(Vec::as_slice))
    }

    #[track_caller]
    fn check(set: FieldSet, expected: &[&str]) {
        assert_eq!(set.paths(), expected);
    }

    #[test]
    fn a_path_and_what_is_below_it_are_apart() {
        let (left, right) = (set(&["a", "a.b", "c.d"]), set(&["a", "c"]));
        check(left.union(&right), &[".a", ".c", ".a.b", ".c.d"]);
        check(left.intersection(&right), &[".a"]);
        check(left.difference(&right), &[".a.b", ".c.d"]);
        check(right.difference(&left), &[".c"]);
        check(left.outside(&right), &[]);
        check(left.outside(&set(&["c"])), &[".a", ".a.b"]);
    }

    fn any_set() -> impl Strategy<Value = FieldSet> {
        let path = prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4);
        prop::collection::vec(path, 0..8)
            .prop_map(|paths| FieldSet::of_fields(paths.iter().map(Vec::as_slice)))
    }

    proptest! {
        #[test]
        fn sets_keep_the_laws_of_sets(left in any_set(), right in any_set()) {
            prop_assert_eq!(left.union(&right), right.union(&left));
            prop_assert_eq!(left.intersection(&right), right.intersection(&left));
            prop_assert_eq!(left.difference(&right).union(&left.intersection(&right)), left.clone());
            prop_assert!(left.difference(&right).intersection(&right).is_empty());
            prop_assert_eq!(left.meets(&right), !left.intersection(&right).is_empty());
            prop_assert!(left.outside(&right).difference(&left).is_empty());
        }
    }
}
