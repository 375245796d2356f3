//! A set of paths into an object: the fields that a manager owns.
//!
//! It is a tree of path elements, each with a flag for whether the path up to it is itself in the set. So `.spec` may be
//! in the set without `.spec.replicas`, the other way round, or both.

use std::cmp::Ordering;

use super::path_element::PathElement;

/// A set of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Sorted by element; no node is empty.
    nodes: Vec<(PathElement, FieldSetNode)>,
}

/// The node of a set at one path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSetNode {
    /// The path itself is in the set.
    pub member: bool,
    /// The paths of the set below this one.
    pub children: FieldSet,
}

impl FieldSet {
    /// The set of some paths of fields, such as `[["status"], ["metadata", "labels"]]`.
    pub fn of_fields<'a>(paths: impl IntoIterator<Item = &'a [&'a str]>) -> Self {
        let mut set = FieldSet::default();
        for path in paths {
            let node = path.iter().rev().fold(FieldSetNode::leaf(), |node, name| {
                FieldSetNode::above(PathElement::field(name), node)
            });
            set = set.union(node.children);
        }
        set
    }

    /// An empty set with capacity for so many path elements at the top.
    pub(super) fn with_capacity(elements: usize) -> Self {
        FieldSet {
            nodes: Vec::with_capacity(elements),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The number of path elements at the top.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Each path element at the top with its node, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&PathElement, &FieldSetNode)> {
        self.nodes.iter().map(|(element, node)| (element, node))
    }

    /// The node at a path element.
    pub fn at(&self, element: &PathElement) -> Option<&FieldSetNode> {
        let found = self.nodes.binary_search_by(|(known, _)| known.cmp(element));
        found.ok().map(|at| &self.nodes[at].1)
    }

    /// The node at a field.
    pub(super) fn at_field(&self, name: &str) -> Option<&FieldSetNode> {
        let order = |known: &PathElement| match known {
            PathElement::Field(known) => known.as_str().cmp(name),
            _ => Ordering::Greater,
        };
        let found = self.nodes.binary_search_by(|(known, _)| order(known));
        found.ok().map(|at| &self.nodes[at].1)
    }

    /// The paths of either set.
    #[must_use]
    pub fn union(self, other: FieldSet) -> FieldSet {
        if self.is_empty() {
            return other;
        }
        let (mut left, mut right) = (self.nodes.into_iter().peekable(), other.nodes.into_iter());
        let mut nodes = Vec::with_capacity(left.len() + right.len());
        for (element, theirs) in right.by_ref() {
            nodes.extend(std::iter::from_fn(|| left.next_if(|(own, _)| *own < element)));
            let own = left.next_if(|(own, _)| *own == element);
            let node = own
                .map_or_else(FieldSetNode::default, |(_, own)| own)
                .union(theirs);
            nodes.push((element, node));
        }
        nodes.extend(left);
        FieldSet { nodes }
    }

    /// The paths of both sets.
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut set = FieldSet::default();
        for (element, node) in self.iter() {
            if let Some(theirs) = other.at(element) {
                let shared = FieldSetNode {
                    member: node.member && theirs.member,
                    children: node.children.intersection(&theirs.children),
                };
                set.push(element.clone(), shared);
            }
        }
        set
    }

    /// The paths of this set that are not in the other.
    #[must_use]
    pub fn difference(mut self, other: &FieldSet) -> FieldSet {
        self.subtract(other);
        self
    }

    /// Removes the paths of the other set from this one.
    pub(super) fn subtract(&mut self, other: &FieldSet) {
        self.change_shared(other, |own, theirs| {
            own.member &= !theirs.member;
            own.children.subtract(&theirs.children);
        });
    }

    /// The paths of this set that are neither in the other nor below a path of the other.
    #[must_use]
    pub fn recursive_difference(mut self, other: &FieldSet) -> FieldSet {
        self.change_shared(other, |own, theirs| {
            let children = std::mem::take(&mut own.children);
            match theirs.member {
                true => own.member = false,
                false => own.children = children.recursive_difference(&theirs.children),
            }
        });
        self
    }

    /// Whether any path is in both sets.
    pub fn intersects(&self, other: &FieldSet) -> bool {
        self.iter().any(|(element, node)| {
            let other = other.at(element);
            other
                .is_some_and(|other| node.member && other.member || node.children.intersects(&other.children))
        })
    }

    /// The text of every path, those of one level before those below it.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    /// Adds a path element with its node; an empty node is skipped. The caller calls [`FieldSet::sort`] after the last one.
    pub(super) fn push(&mut self, element: PathElement, node: FieldSetNode) {
        if !node.is_empty() {
            self.nodes.push((element, node));
        }
    }

    /// Sorts the pushed path elements.
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

    /// Changes each node that the other set has too. A node that is empty afterwards is removed.
    fn change_shared(&mut self, other: &FieldSet, change: impl Fn(&mut FieldSetNode, &FieldSetNode)) {
        let mut others = other.nodes.iter().peekable();
        self.nodes.retain_mut(|(element, node)| {
            while others.next_if(|(theirs, _)| *theirs < *element).is_some() {}
            if let Some((_, theirs)) = others.next_if(|(theirs, _)| *theirs == *element) {
                change(node, theirs);
            }
            !node.is_empty()
        });
    }
}

// === impl Node ===

impl FieldSetNode {
    /// The path itself and nothing below.
    pub(super) fn leaf() -> Self {
        FieldSetNode {
            member: true,
            children: FieldSet::default(),
        }
    }

    /// Something below, but not the path itself.
    pub(super) fn of(mut children: FieldSet) -> Self {
        children.sort();
        FieldSetNode {
            member: false,
            children,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    fn union(self, other: FieldSetNode) -> Self {
        FieldSetNode {
            member: self.member || other.member,
            children: self.children.union(other.children),
        }
    }

    fn above(element: PathElement, node: FieldSetNode) -> Self {
        let mut children = FieldSet::default();
        children.push(element, node);
        FieldSetNode::of(children)
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
    fn a_path_and_the_paths_below_it_are_independent() {
        let (left, right) = (set(&["a", "a.b", "c.d"]), set(&["a", "c"]));
        check(left.clone().union(right.clone()), &[".a", ".c", ".a.b", ".c.d"]);
        check(left.intersection(&right), &[".a"]);
        check(left.clone().difference(&right), &[".a.b", ".c.d"]);
        check(right.clone().difference(&left), &[".c"]);
        check(left.clone().recursive_difference(&right), &[]);
        check(left.recursive_difference(&set(&["c"])), &[".a", ".a.b"]);
    }

    fn any_set() -> impl Strategy<Value = FieldSet> {
        let path = prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4);
        prop::collection::vec(path, 0..8)
            .prop_map(|paths| FieldSet::of_fields(paths.iter().map(Vec::as_slice)))
    }

    proptest! {
        #[test]
        fn sets_keep_the_laws_of_sets(left in any_set(), right in any_set()) {
            let (both, only_left) = (left.intersection(&right), left.clone().difference(&right));
            prop_assert_eq!(left.clone().union(right.clone()), right.clone().union(left.clone()));
            prop_assert_eq!(&both, &right.intersection(&left));
            prop_assert!(only_left.intersection(&right).is_empty());
            prop_assert_eq!(only_left.union(both.clone()), left.clone());
            prop_assert_eq!(left.intersects(&right), !both.is_empty());
            prop_assert!(left.clone().recursive_difference(&right).difference(&left).is_empty());
        }
    }
}
