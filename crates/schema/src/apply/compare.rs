//! Comparison of two objects by path (structured-merge-diff's `Comparison`).
//!
//! An added struct or map is added itself and with everything in it; likewise when it is removed. Where both objects have
//! one, only the differences inside count. Atomic values differ as a whole, and so do empty structs, maps and lists.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::field_set::{FieldSet, FieldSetNode};
use super::path_element::PathElement;
use super::schema_node::{NodeKind, SchemaNode, path_element};
use super::traversal::{ReadMode, field_pairs, for_each_field, same};
use crate::shape::{Field, Shape};
use crate::tree::Tree;

/// The difference between two objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) removed: FieldSet,
    /// Present in both, with different values.
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

/// The difference at one path and below it.
#[derive(Default)]
struct NodeComparison {
    removed: FieldSetNode,
    modified: FieldSetNode,
    added: FieldSetNode,
}

/// Compares two objects, ignoring the fields that are reset anyway.
pub(super) fn compare(
    shape: &Shape,
    (old, new): (&Tree, &Tree),
    mode: ReadMode,
    reset: &FieldSet,
) -> Comparison {
    let nodes = walk(SchemaNode::of_shape(shape), Some(old), Some(new), mode);
    Comparison {
        removed: nodes.removed.children.recursive_difference(reset),
        modified: nodes.modified.children.recursive_difference(reset),
        added: nodes.added.children.recursive_difference(reset),
    }
}

impl Comparison {
    /// The paths with a new value: modified or added.
    pub(super) fn into_changed(self) -> FieldSet {
        self.modified.union(self.added)
    }

    /// Removes from a set all paths that changed, the removed ones included.
    pub(super) fn remove_from(&self, set: &mut FieldSet) {
        for changed in [&self.removed, &self.modified, &self.added] {
            set.subtract(changed);
        }
    }
}

fn walk(schema: SchemaNode<'_>, old: Option<&Tree>, new: Option<&Tree>, mode: ReadMode) -> NodeComparison {
    match (old, new) {
        (Some(old), Some(new)) => walk_both(schema, old, new, mode),
        (Some(old), None) => NodeComparison {
            removed: entire_node(schema, old, mode),
            ..NodeComparison::default()
        },
        (None, Some(new)) => NodeComparison {
            added: entire_node(schema, new, mode),
            ..NodeComparison::default()
        },
        (None, None) => NodeComparison::default(),
    }
}

fn walk_both(schema: SchemaNode<'_>, old: &Tree, new: &Tree, mode: ReadMode) -> NodeComparison {
    if old == new {
        return NodeComparison::default();
    }
    match schema.kind {
        _ if schema.atomic => leaf(schema, old, new, mode),
        NodeKind::Scalar(_) => leaf(schema, old, new, mode),
        NodeKind::List(field) => {
            let (before, after) = (
                old.as_list().unwrap_or_default(),
                new.as_list().unwrap_or_default(),
            );
            if before.is_empty() && after.is_empty() {
                return leaf(schema, old, new, mode);
            }
            let (before, after) = (by_path_element(field, before), by_path_element(field, after));
            walk_items(SchemaNode::of_element(field), before, after, mode)
        }
        NodeKind::Struct(_) | NodeKind::Map(_) | NodeKind::Any => {
            let pairs = field_pairs(schema, old.as_map(), new.as_map(), mode);
            if pairs.is_empty() {
                return leaf(schema, old, new, mode);
            }
            let mut nodes = ComparisonBuilder::default();
            for (key, schema, old, new) in pairs {
                nodes.push(|| PathElement::field(key), walk(schema, old, new, mode));
            }
            let mut nodes = nodes.finish();
            nodes.modified.member = matches!(schema.kind, NodeKind::Any) && differ_in_kind(old, new);
            nodes
        }
    }
}

/// The node of an added or removed value, with everything in it.
fn entire_node(schema: SchemaNode<'_>, value: &Tree, mode: ReadMode) -> FieldSetNode {
    let mut children = FieldSet::default();
    match (schema.kind, value) {
        _ if schema.atomic => {}
        (NodeKind::List(field), Tree::List(items)) => {
            children = FieldSet::with_capacity(items.len());
            for (element, same) in by_path_element(field, items) {
                children.push(element, entire_item(SchemaNode::of_element(field), &same, mode));
            }
        }
        (NodeKind::Struct(_) | NodeKind::Map(_) | NodeKind::Any, Tree::Map(map)) => {
            children = FieldSet::with_capacity(map.len());
            for_each_field(schema, map, mode, |key, schema, value| {
                children.push(PathElement::field(key), entire_node(schema, value, mode));
            });
        }
        _ => {}
    }
    FieldSetNode {
        member: true,
        ..FieldSetNode::of(children)
    }
}

fn entire_item(schema: SchemaNode<'_>, same: &[&Tree], mode: ReadMode) -> FieldSetNode {
    match same {
        [only] => entire_node(schema, only, mode),
        _ => FieldSetNode::leaf(),
    }
}

fn leaf(schema: SchemaNode<'_>, old: &Tree, new: &Tree, mode: ReadMode) -> NodeComparison {
    let mut nodes = NodeComparison::default();
    nodes.modified.member = !same(schema, old, new, mode);
    nodes
}

/// Whether a value of any JSON turns from a map into something else. Null counts as an empty map.
fn differ_in_kind(old: &Tree, new: &Tree) -> bool {
    let is_map = |value: &Tree| matches!(value, Tree::Map(_) | Tree::Null);
    is_map(old) != is_map(new)
}

fn walk_items<'a>(
    schema: SchemaNode<'_>,
    old: Vec<Items<'a>>,
    new: Vec<Items<'a>>,
    mode: ReadMode,
) -> NodeComparison {
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    let mut nodes = ComparisonBuilder::default();
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return nodes.finish(),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => old.0.cmp(&new.0),
        };
        let before = old.next_if(|_| order.is_le());
        let after = new.next_if(|_| order.is_ge());
        let changed = walk_item(schema, items(&before), items(&after), mode);
        let (element, _) = before.or(after).expect("one of both lists has an item left");
        nodes.push(|| element.clone(), changed);
    }
}

/// Compares the items with one path element. Of duplicates the content is ambiguous, and only their presence counts.
fn walk_item(schema: SchemaNode<'_>, old: &[&Tree], new: &[&Tree], mode: ReadMode) -> NodeComparison {
    let mut nodes = match (old.len(), new.len()) {
        (0..=1, 0..=1) => return walk(schema, old.first().copied(), new.first().copied(), mode),
        (0..=1, _) => old.first().map(|old| walk(schema, Some(old), None, mode)),
        (_, 0..=1) => new.first().map(|new| walk(schema, None, Some(new), mode)),
        _ => None,
    }
    .unwrap_or_default();
    match (old.len(), new.len()) {
        (0..=1, _) => nodes.added.member = true,
        (_, 0..=1) => nodes.removed.member = true,
        _ => nodes.modified.member = old != new,
    }
    nodes
}

/// The items with one path element; more than one if the list has duplicates.
type Items<'a> = (PathElement, SmallVec<[&'a Tree; 1]>);

fn items<'b, 'a>(items: &'b Option<Items<'a>>) -> &'b [&'a Tree] {
    items.as_ref().map_or(&[], |(_, items)| items)
}

/// The items of a list by their path element, sorted. Items without one are skipped.
fn by_path_element<'a>(list: &Field, items: &'a [Tree]) -> Vec<Items<'a>> {
    let keyed_items = items
        .iter()
        .filter_map(|item| Some((path_element(list, item).ok()?, item)));
    let mut keyed_items: Vec<Items<'a>> = keyed_items
        .map(|(element, item)| (element, SmallVec::from([item])))
        .collect();
    keyed_items.sort_by(|left, right| left.0.cmp(&right.0));
    keyed_items.dedup_by(|later, earlier| {
        let again = later.0 == earlier.0;
        if again {
            earlier.1.append(&mut later.1);
        }
        again
    });
    keyed_items
}

/// Builder of the difference below one path.
#[derive(Default)]
struct ComparisonBuilder {
    comparison: Comparison,
}

impl ComparisonBuilder {
    /// Adds the difference at a path element, which is only computed if there is one.
    fn push(&mut self, element: impl Fn() -> PathElement, nodes: NodeComparison) {
        let sets = [
            (&mut self.comparison.removed, nodes.removed),
            (&mut self.comparison.modified, nodes.modified),
            (&mut self.comparison.added, nodes.added),
        ];
        for (set, node) in sets.into_iter().filter(|(_, node)| !node.is_empty()) {
            set.push(element(), node);
        }
    }

    fn finish(self) -> NodeComparison {
        NodeComparison {
            removed: FieldSetNode::of(self.comparison.removed),
            modified: FieldSetNode::of(self.comparison.modified),
            added: FieldSetNode::of(self.comparison.added),
        }
    }
}
