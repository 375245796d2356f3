//! Traversal of one or two objects for comparison: by key, in order, including fields that are unwritten but count as set.
//!
//! The canonical JSON of a built-in kind has some fields even when they are unset (an empty `spec`, a null list) and omits
//! others that have their zero value. Two representations of the same object must not differ in ownership, so they are
//! read as if written in canonical JSON. An applied configuration, on the other hand, is read literally: a null or an
//! empty list in it is intended.

use smallvec::SmallVec;

use super::path_element::order;
use super::schema_node::{NodeKind, SchemaNode};
use crate::shape::{Field, Shape};
use crate::tree::{Map, Tree};
use crate::write::canonical_value;

/// Most structs have no more members than this.
const INLINE_MEMBERS: usize = 64;

/// How absent and zero values are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadMode {
    /// As given.
    Literal,
    /// As if written in canonical JSON.
    Canonical,
}

/// A key, its schema, and its value in the left and in the right object.
pub(super) type FieldPair<'a> = (&'a str, SchemaNode<'a>, Option<&'a Tree>, Option<&'a Tree>);

/// Visits the values of a struct or map: declared fields sorted by name, then the others. The last of duplicate keys counts.
pub(super) fn for_each_field<'a>(
    node: SchemaNode<'a>,
    map: &'a Map,
    mode: ReadMode,
    mut visit: impl FnMut(&'a str, SchemaNode<'a>, &'a Tree),
) {
    let NodeKind::Struct(shape) = node.kind else {
        let below = node.of_values();
        return sorted(Some(map))
            .iter()
            .for_each(|(key, value)| visit(key, below, value));
    };
    let values = MemberValues::of(shape, Some(map), mode);
    for (at, field) in shape.members_by_name() {
        if let Some(value) = values.find(at, field) {
            visit(&field.name, SchemaNode::of_field(field), value);
        }
    }
    let unknown = unknown_fields(shape, Some(map)).into_iter();
    unknown.for_each(|(key, value)| visit(key, SchemaNode::DEDUCED, value));
}

/// The values of two structs or maps, in the same order.
pub(super) fn field_pairs<'a>(
    node: SchemaNode<'a>,
    left: Option<&'a Map>,
    right: Option<&'a Map>,
    mode: ReadMode,
) -> Vec<FieldPair<'a>> {
    let NodeKind::Struct(shape) = node.kind else {
        return join(node.of_values(), sorted(left), sorted(right));
    };
    let unknown = join(
        SchemaNode::DEDUCED,
        unknown_fields(shape, left),
        unknown_fields(shape, right),
    );
    let [left, right] = [left, right].map(|map| MemberValues::of(shape, map, mode));
    let declared = shape.members_by_name().filter_map(|(at, field)| {
        let (left, right) = (left.find(at, field), right.find(at, field));
        let is_set = left.is_some() || right.is_some();
        is_set.then(|| (field.name.as_str(), SchemaNode::of_field(field), left, right))
    });
    declared.chain(unknown).collect()
}

/// The undeclared fields of a struct that preserves unknown fields, sorted by key.
fn unknown_fields<'a>(shape: &Shape, map: Option<&'a Map>) -> Vec<(&'a str, &'a Tree)> {
    if !shape.preserve_unknown_fields {
        return Vec::new();
    }
    let mut pairs = sorted(map);
    pairs.retain(|(key, _)| shape.member(key).is_none());
    pairs
}

/// The last pair of each key of a map, sorted by key.
pub(super) fn sorted(map: Option<&Map>) -> Vec<(&str, &Tree)> {
    let mut pairs: Vec<(&str, &Tree)> = map.into_iter().flat_map(Map::iter).collect();
    if !pairs.is_sorted_by(|left, right| left.0 < right.0) {
        pairs.reverse();
        pairs.sort_by(|left, right| left.0.cmp(right.0));
        pairs.dedup_by(|later, earlier| later.0 == earlier.0);
    }
    pairs
}

fn join<'a>(
    node: SchemaNode<'a>,
    left: Vec<(&'a str, &'a Tree)>,
    right: Vec<(&'a str, &'a Tree)>,
) -> Vec<FieldPair<'a>> {
    let mut joined = Vec::with_capacity(left.len().max(right.len()));
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let Some(key) = [left.peek(), right.peek()]
        .into_iter()
        .flatten()
        .map(|pair| pair.0)
        .min()
    {
        let left = left.next_if(|pair| pair.0 == key).map(|pair| pair.1);
        let right = right.next_if(|pair| pair.0 == key).map(|pair| pair.1);
        joined.push((key, node, left, right));
    }
    joined
}

/// Whether two values are equal in a read mode. The order of keys does not matter, null is not absent.
pub(super) fn same(node: SchemaNode<'_>, left: &Tree, right: &Tree, mode: ReadMode) -> bool {
    if left == right {
        return true;
    }
    match (left, right) {
        (Tree::Map(left), Tree::Map(right)) => {
            let mut pairs = field_pairs(node, Some(left), Some(right), mode).into_iter();
            pairs.all(|(_, node, left, right)| match (left, right) {
                (Some(left), Some(right)) => same(node, left, right, mode),
                _ => false,
            })
        }
        (Tree::List(left), Tree::List(right)) => {
            let element = match node.kind {
                NodeKind::List(field) => SchemaNode::of_element(field),
                _ => node,
            };
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| same(element, left, right, mode))
        }
        _ => order(left, right).is_eq(),
    }
}

/// The value with all fields of canonical JSON, and without the zero values that it omits. Unknown fields stay as they
/// are.
pub(super) fn to_canonical(node: SchemaNode<'_>, value: &Tree) -> Tree {
    match (node.kind, value) {
        (NodeKind::Struct(shape), Tree::Map(map)) => {
            let declared = members(shape, map, ReadMode::Canonical).map(|(field, value)| {
                (
                    field.name.clone(),
                    to_canonical(SchemaNode::of_field(field), value),
                )
            });
            let unknown = map.iter().filter(|(key, _)| shape.member(key).is_none());
            let unknown = unknown.map(|(key, value)| (key.into(), value.clone()));
            declared.chain(unknown).collect::<Map>().into()
        }
        (NodeKind::Map(field), Tree::Map(map)) => {
            let values = map.iter();
            let values = values.map(|(key, value)| (key, to_canonical(SchemaNode::of_element(field), value)));
            values.collect::<Map>().into()
        }
        (NodeKind::List(field), Tree::List(items)) => {
            let items = items.iter();
            Tree::List(
                items
                    .map(|item| to_canonical(SchemaNode::of_element(field), item))
                    .collect(),
            )
        }
        (_, value) => value.clone(),
    }
}

/// The set fields of a struct, in declaration order.
fn members<'a>(
    shape: &'a Shape,
    map: &'a Map,
    mode: ReadMode,
) -> impl Iterator<Item = (&'a Field, &'a Tree)> {
    let values = MemberValues::of(shape, Some(map), mode);
    let members = shape.members().iter().enumerate();
    members.filter_map(move |(at, field)| Some((field, values.find(at, field)?)))
}

/// The value of each member of a struct. An absent struct has none.
struct MemberValues<'a> {
    values: SmallVec<[Option<&'a Tree>; INLINE_MEMBERS]>,
    mode: ReadMode,
}

impl<'a> MemberValues<'a> {
    fn of(shape: &Shape, map: Option<&'a Map>, mode: ReadMode) -> Self {
        let mut values = SmallVec::from_elem(None, shape.members().len());
        let mut next = 0;
        for (key, value) in map.into_iter().flat_map(Map::iter) {
            if let Some(at) = shape.position(key, next) {
                values[at] = Some(value);
                next = at + 1;
            }
        }
        let mode = if shape.literal { ReadMode::Literal } else { mode };
        MemberValues { values, mode }
    }

    /// The value of the member at an index, or its value in canonical JSON.
    fn find(&self, at: usize, field: &'a Field) -> Option<&'a Tree> {
        match self.mode {
            ReadMode::Literal => self.values[at],
            ReadMode::Canonical => canonical_value(field, self.values[at]),
        }
    }
}
